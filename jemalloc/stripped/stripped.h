/*
 * Finds jemalloc in a module without symbols for it, by its tables, its texts and
 * the code that uses them. One sign is never enough: the tables must be complete;
 * the function that is called with the names of options must start where call
 * frame information says that a function starts, and must lead to the tables; and
 * its first call must return the version found among the constants (ctl_confirm).
 */
#pragma once

#include "elf/eh_frames.h"
#include "inject/plan.h"
#include "jemalloc/instance.h"
#include "jemalloc/stripped/tables.h"

/*
 * Fills the nth jemalloc of the module, counted from 0. False: there is none;
 * *why is then NULL, or the reason why it cannot be used (static text).
 */
bool stripped_find(struct instance *instance, const struct module *module,
                   const struct target *target, struct memory *memory, size_t nth,
                   const char **why);

/*
 * Reads the version of any instance from its constants, without a call. False if
 * it is not certain.
 */
bool stripped_version(const struct instance *instance, const struct target *target,
                      struct memory *memory, char *out, size_t size);

/* Reads the constant text that a name of mallctl stands for ("config.malloc_conf"), as above. */
bool stripped_constant(const struct instance *instance, const char *path,
                       const struct target *target, struct memory *memory, char *out, size_t size);

/* Finds the version of any instance ("": unknown), and the addresses of its variables. */
void stripped_facts(const struct instance *instance, const struct target *target,
                    struct memory *memory, char *version, size_t size, struct globals *globals);

/*
 * Finds variables of any instance that certainly belong to it: its mallctl uses
 * these tables. False: it is not certain.
 */
bool stripped_globals(const struct instance *instance, const struct target *target,
                      struct memory *memory, struct globals *globals);

/*
 * Forbids the code of any instance in a module without .symtab
 * (jemalloc/stripped/hull.h). FAULT_UNSUPPORTED, with the reason, if the code is
 * not certain.
 */
fault_code stripped_forbid(const struct instance *instance, struct plan *plan,
                           const struct target *target, struct memory *memory, struct fault *fault);

/* Finds variables by the functions that serve their names in these tables. */
void globals_find(struct globals *globals, const struct view *view, const struct eh_frames *frames,
                  const struct ctl_tables *tables);
