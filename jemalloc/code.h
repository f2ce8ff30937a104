/* Finds the code of jemalloc in a target: no thread may be interrupted there. */
#pragma once

#include "inject/plan.h"
#include "jemalloc/instance.h"

/*
 * Forbids the code of jemalloc in the plan, and its background threads. For a
 * shared library that is all of its code. For a program that jemalloc is linked
 * into, it is the ranges of jemalloc's functions, found in .symtab or, without
 * one, by jemalloc/stripped/hull.h (FAULT_UNSUPPORTED if they are not certain).
 */
fault_code code_forbid(const struct instance *instance, struct plan *plan,
                       const struct target *target, struct memory *memory, struct fault *fault);
