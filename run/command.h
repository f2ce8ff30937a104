/* Programs that are started: dot, and the command of a watch. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Starts a program with these file descriptors as its stdin and stdout, no signal blocked, and
 * those that the tool ignores as they usually are. Returns 0 or an errno.
 */
int command_spawn(pid_t *pid, const char *path, char *const *words, char *const *environment,
                  int in, int out);

/* A command of the operator's. */
struct command {
    pid_t pid; /* 0: none is running */
};

/* What became of a command. */
struct command_end {
    int err;    /* it was not started; EBUSY: the one before is still running */
    int status; /* as of waitpid(2) */
};

/*
 * Starts a line of sh(1) with its output on stderr, and these variables ("JEATTACH_NAME=value",
 * NULL at the end) in its environment, and no others that begin so. Returns an errno as
 * command_end.err.
 */
int command_start(struct command *command, const char *line, char *const *variables);

/* True, with its status, if the command has ended since the last call. */
bool command_ended(struct command *command, int *status);
