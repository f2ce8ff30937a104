/*
 * Where jemalloc is in a target: its mallctl, found by name under any prefix,
 * else by its tables.
 */
#pragma once

#include "elf/modules.h"
#include "jemalloc/version.h"

enum { PREFIX_MAX = 64, INSTANCES_MAX = 16 };

enum found_by { FOUND_DYNSYM, FOUND_SYMTAB, FOUND_MINIDEBUG, FOUND_DEBUGFILE, FOUND_TABLES };

struct instance {
    struct module module;    /* a copy: the list of modules may be read again meanwhile */
    char path[4096];         /* its path */
    uint64_t bias;           /* load bias of that module */
    char prefix[PREFIX_MAX]; /* "", "je_", "_rjem_"; FOUND_TABLES: that of its configuration */
    enum found_by found_by;
    bool in_program; /* linked into the main program, not a library of its own */
    remote_addr mallctl;
    remote_addr stats_print; /* malloc_stats_print; 0: not found (FOUND_TABLES) */
    /* FOUND_TABLES alone. */
    char version[VERSION_TEXT_MAX]; /* as its constants have it */
    remote_addr tables;             /* the node above the root */
    remote_addr opt_prof;           /* the variable; 0: not known */
};

/* Is it what stands before names in C? It goes into messages, and into the name of a variable. */
bool prefix_valid(const char *prefix, size_t len);

/* All of them, in the order of their addresses. */
struct instances {
    struct instance *list;
    size_t count;
    size_t chosen; /* the default, see instances_find */
};

/*
 * Finds every jemalloc: each name that ends in mallctl and has its sibling
 * malloc_stats_print in the same module, and in modules without one those that
 * are known by their tables alone. instances_free releases them.
 *
 * The default is the one that serves malloc: of the module that the dynamic
 * linker takes malloc from, the one without a prefix, else its first. If no
 * jemalloc serves malloc, or the program is static: the first without a
 * prefix, else the first in a program, else the first.
 *
 * FAULT_NO_ALLOCATOR; FAULT_FOREIGN_ABI if the target is a 32-bit program;
 * FAULT_UNSUPPORTED if there are tables, but not all of the signs agree.
 */
fault_code instances_find(struct instances *instances, const struct modules *modules,
                          const struct target *target, struct memory *memory, struct fault *fault);
void instances_free(struct instances *instances);

/* The default alone, with no more work than that needs. The same faults. */
fault_code instance_find(struct instance *instance, const struct modules *modules,
                         const struct target *target, struct memory *memory, struct fault *fault);

/* The same in one module alone; false if it holds none. */
bool instance_in_module(struct instance *instance, const struct module *module,
                        const struct target *target, struct memory *memory);
