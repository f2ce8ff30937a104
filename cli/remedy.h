/* What gives the tool the right that it lacks, in the words of the runtime where it runs. */
#pragma once

#include "base/fault.h"
#include "host/runtime.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* What the words depend on. */
struct remedy {
    enum runtime runtime; /* of the tool */
    bool root;            /* the tool's effective user is 0 */
    bool bounded;         /* root would have CAP_SYS_PTRACE where the tool runs */
    unsigned uid;         /* the target's */
    const char *engine;   /* the target's container's; NULL: none, or not to be told */
    char id[16];          /* of that container, shortened; "TARGET": not to be told */
    char program[PATH_MAX];
};

void remedy_look(struct remedy *remedy, pid_t pid);

/*
 * The fix, or NULL where the general one does. Directives, besides those of
 * cli/message.c: %I: the container's id, %U: the target's uid, %J: the tool's file.
 */
const char *remedy_template(const struct remedy *remedy, const struct fault *fault);
