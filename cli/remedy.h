/*
 * How to give the tool the rights that it lacks, in the terms of the runtime where it runs, and how
 * to make an output writable.
 */
#pragma once

#include "base/fault.h"
#include "host/container.h"

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

/* What a remedy depends on. */
struct remedy {
    enum runtime runtime;   /* of the tool */
    bool root;              /* the tool's effective user is 0 */
    bool bounded;           /* root would have CAP_SYS_PTRACE where the tool runs */
    unsigned uid;           /* of the target */
    enum runtime engine;    /* of the target's container; RUNTIME_NONE: none, or unknown */
    char id[16];            /* of that container, shortened; "TARGET": unknown */
    char program[PATH_MAX]; /* the file of the tool */
};

/* Reads it for the tool and the target pid (0: none); what cannot be read stays unknown. */
void remedy_look(struct remedy *remedy, pid_t pid);

/*
 * Returns a template of the fix; NULL: use the fix of cli/fault_table.c. Directives in
 * addition to those of cli/fault_table.h: %I: remedy.id, %U: remedy.uid, %J: remedy.program, %D:
 * the directory of fault.what, as a word of a shell.
 */
const char *remedy_template(const struct remedy *remedy, const struct fault *fault);

/*
 * Writes the path of a jemalloc in the root of the process, of a distribution's package; if there
 * is none, or the root may not be read, its name without a directory. Returns out.
 */
const char *remedy_library(pid_t pid, char *out, size_t size);
