/*
 * Finds jemalloc in a target: its mallctl, by name under any prefix, or by its
 * tables.
 */
#pragma once

#include "elf/modules.h"
#include "jemalloc/stripped/globals.h"
#include "jemalloc/version.h"

enum { PREFIX_MAX = 64, INSTANCES_MAX = 16 };

enum found_by { FOUND_DYNSYM, FOUND_SYMTAB, FOUND_MINIDEBUG, FOUND_DEBUGFILE, FOUND_TABLES };

struct instance {
    struct module module;    /* a copy: the list of modules may be read again */
    char path[4096];         /* its path */
    uint64_t bias;           /* load bias of that module */
    char prefix[PREFIX_MAX]; /* "", "je_", "_rjem_"; FOUND_TABLES: the one of its configuration */
    enum found_by found_by;
    bool in_program; /* linked into the main program, not a library of its own */
    remote_addr mallctl;
    remote_addr stats_print; /* malloc_stats_print; 0: not found (FOUND_TABLES) */
    /* Only for FOUND_TABLES. */
    char version[VERSION_TEXT_MAX]; /* found among its constants */
    remote_addr tables;             /* the node above the root */
    struct globals globals;
};

/* True if it is a valid prefix of a C identifier: messages and variable names contain it. */
bool prefix_valid(const char *prefix, size_t len);

/* All instances, by ascending address. */
struct instances {
    struct instance *list;
    size_t count;
    size_t chosen; /* index of the default, see instances_find */
};

/*
 * Finds every jemalloc: each name that ends in mallctl, if the same module has
 * malloc_stats_print under the same prefix; in modules without such a name, by
 * the tables. instances_free releases the list.
 *
 * The default is the instance that serves malloc: in the module that the dynamic
 * linker takes malloc from, the one without a prefix, else the first. If no
 * jemalloc serves malloc, or the program is static, it is the first without a
 * prefix, else the first in the program, else the first.
 *
 * FAULT_NO_ALLOCATOR: there is none. FAULT_FOREIGN_ABI: the target is a 32-bit
 * program. FAULT_UNSUPPORTED: there are tables, but not all signs agree.
 */
fault_code instances_find(struct instances *instances, const struct modules *modules,
                          const struct target *target, struct memory *memory, struct fault *fault);
void instances_free(struct instances *instances);

/* Finds only the default, with less work. Sets the same faults. */
fault_code instance_find(struct instance *instance, const struct modules *modules,
                         const struct target *target, struct memory *memory, struct fault *fault);

/* Finds the default of one module; false if the module has none. */
bool instance_in_module(struct instance *instance, const struct module *module,
                        const struct target *target, struct memory *memory);
