#include "run/command.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PREFIX "JEATTACH_"

extern char **environ;

static size_t count_of(char *const *list)
{
    size_t n = 0;

    while (list[n])
        n++;
    return n;
}

int command_spawn(pid_t *pid, const char *path, char *const *words, char *const *environment,
                  int in, int out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    int err = posix_spawn_file_actions_init(&actions);

    if (err)
        return err;
    err = posix_spawnattr_init(&attributes);
    if (err) {
        posix_spawn_file_actions_destroy(&actions);
        return err;
    }
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE); /* these are ignored here, which a shell cannot undo */
    sigaddset(&usual, SIGXFSZ);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &usual);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    err = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (!err)
        err = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (!err)
        err = posix_spawn(pid, path, &actions, &attributes, words, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return err;
}

int command_start(struct command *command, const char *line, char *const *variables)
{
    const size_t own = count_of(environ), more = count_of(variables);
    char *const words[] = {(char *)"sh", (char *)"-c", (char *)line, NULL};
    AUTO_FREE char **all = calloc(own + more + 1, sizeof *all);
    AUTO_CLOSE int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int err;

    if (command->pid)
        return EBUSY;
    if (nothing < 0)
        return errno;
    if (!all)
        return ENOMEM;
    memcpy(all, variables, more * sizeof *all);
    /* This may be the command of another watch. */
    for (size_t i = 0, n = more; i < own; i++)
        if (strncmp(environ[i], PREFIX, sizeof PREFIX - 1) != 0)
            all[n++] = environ[i];
    err = command_spawn(&command->pid, "/bin/sh", words, all, nothing, STDERR_FILENO);
    if (err)
        command->pid = 0;
    return err;
}

bool command_ended(struct command *command, int *status)
{
    if (!command->pid || waitpid(command->pid, status, WNOHANG) != command->pid)
        return false;
    command->pid = 0;
    return true;
}
