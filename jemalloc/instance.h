/*
 * Where jemalloc is in a target: its mallctl, found by name under any prefix.
 */
#pragma once

#include "elf/modules.h"

enum { PREFIX_MAX = 64 };

enum found_by { FOUND_DYNSYM, FOUND_SYMTAB, FOUND_MINIDEBUG, FOUND_DEBUGFILE };

struct instance {
    struct module module;    /* a copy: the list of modules may be read again meanwhile */
    char path[4096];         /* its path */
    uint64_t bias;           /* load bias of that module */
    char prefix[PREFIX_MAX]; /* "", "je_", "_rjem_" */
    enum found_by found_by;
    bool in_program; /* linked into the main program, not a library of its own */
    remote_addr mallctl;
    remote_addr stats_print;
};

/*
 * Finds the jemalloc that serves malloc if there are several: the one without
 * a prefix, else the first. FAULT_NO_ALLOCATOR; FAULT_FOREIGN_ABI if the
 * target is a 32-bit program.
 */
enum fault_code instance_find(struct instance *instance, const struct modules *modules,
                              const struct target *target, struct memory *memory,
                              struct fault *fault);
