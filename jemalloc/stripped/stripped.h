/*
 * jemalloc in a module that has no name for it: by its tables, its texts and
 * the code that uses them. Nothing is found on one sign alone: the tables must
 * be complete, the function that is called with the options' names must begin
 * where call frame information says that one begins, and must lead to the
 * tables; what the first call of it returns must be the version that the
 * constants have (instance_confirm).
 */
#pragma once

#include "inject/plan.h"
#include "jemalloc/instance.h"

/*
 * Fills the nth jemalloc of the module, from 0. False: there is none;
 * *why is then NULL, or says what kept it from being used (static text).
 */
bool stripped_find(struct instance *instance, const struct module *module,
                   const struct target *target, struct memory *memory, size_t nth,
                   const char **why);

/*
 * The version of an instance as its constants have it, without a call, however
 * it was found. False: it cannot be told.
 */
bool stripped_version(const struct instance *instance, const struct target *target,
                      struct memory *memory, char *out, size_t size);

/*
 * The version and the variable opt.prof of an instance, however it was found;
 * "" and 0: it is not known, or this build has no profiling.
 */
void stripped_facts(const struct instance *instance, const struct target *target,
                    struct memory *memory, char *version, size_t size, remote_addr *opt_prof);

/*
 * Forbids the code of an instance, however it was found, in a module without
 * .symtab (jemalloc/stripped/hull.h). FAULT_UNSUPPORTED with the reason if it cannot be
 * told for certain.
 */
fault_code stripped_forbid(const struct instance *instance, struct plan *plan,
                           const struct target *target, struct memory *memory, struct fault *fault);
