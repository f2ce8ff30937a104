/* Which code of a target is the allocator's: where no thread may be interrupted. */
#pragma once

#include "inject/plan.h"
#include "jemalloc/instance.h"

/*
 * Forbids the allocator's code in the plan, and its background threads: of a
 * shared library the whole; of a program that it is linked into, the ranges of
 * its functions, for which that program's .symtab is needed (FAULT_UNSUPPORTED
 * without).
 */
enum fault_code code_forbid(const struct instance *instance, struct plan *plan,
                            const struct target *target, struct memory *memory,
                            struct fault *fault);
