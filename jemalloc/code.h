/* Which code of a target is the allocator's: where no thread may be interrupted. */
#pragma once

#include "inject/plan.h"
#include "jemalloc/instance.h"

/*
 * Forbids the allocator's code in the plan, and its background threads: of a
 * shared library the whole; of a program that it is linked into, the ranges of
 * its functions, by that program's .symtab or, without one, by jemalloc/stripped/hull.h
 * (FAULT_UNSUPPORTED if that cannot tell them for certain).
 */
fault_code code_forbid(const struct instance *instance, struct plan *plan,
                       const struct target *target, struct memory *memory, struct fault *fault);
