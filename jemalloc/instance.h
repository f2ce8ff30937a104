/*
 * Finds jemalloc in a target: its mallctl, by name under any prefix, or by its
 * tables. Compares its versions.
 */
#pragma once

#include "elf/modules.h"

/*
 * Versions of jemalloc, parsed for comparisons.
 *
 * The string is "MAJOR.MINOR.BUGFIX-NREV-gGID" (jemalloc(3), "version"):
 * "5.3.0-0-g54eaed1d8b56..."; NREV counts the commits since that release.
 * Builds of a tree without tags have "0.0.0-0-g000000missing_version_...";
 * --with-version=VERSION can be any text: redis has "5.3.0-0-g0".
 */
enum { VERSION_TEXT_MAX = 128 }; /* bytes of a version string that are kept, with its NUL */

/* For tables and comparisons: VERSION_NUMBER(5, 2, 1) is 50201. */
#define VERSION_NUMBER(major, minor, bugfix) ((major)*10000u + (minor)*100u + (bugfix))

struct version {
    unsigned number;  /* VERSION_NUMBER; 0: unknown, then every comparison is false */
    unsigned commits; /* since that release, in a build between releases */
};

/* Parses a version string; number is 0 if it names no release ("0.0.0-...", no digits, NULL). */
struct version version_parse(const char *text);

/*
 * True if it is a release from first to last, both included; last 0: no end. A
 * build with commits after a release counts as that release. False if unknown.
 */
bool version_within(struct version version, unsigned first, unsigned last);

/* True if it is that release, or a later one, with at least so many commits after it. */
bool version_since(struct version version, unsigned number, unsigned commits);

enum { PREFIX_MAX = 64, INSTANCES_MAX = 16 };

/*
 * Variables that the functions in the tables of mallctl lead to (stripped/stripped.h).
 * Addresses; 0: not found, or not certain, or this build has no profiling.
 */
struct globals {
    remote_addr opt_prof;
    remote_addr prof_active; /* prof_active up to 5.2.1, prof_active_state since 5.3.0 */
    remote_addr thread_init; /* prof_thread_active_init */
    remote_addr lg_sample;   /* lg_prof_sample */
    remote_addr prefix;      /* opt_prof_prefix */
};

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
