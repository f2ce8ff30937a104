#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOOL_SECONDS = 120, PROCESSES_MAX = 256, CAPABILITIES = 64 };

const struct user root = {0, ALL_CAPABILITIES}, alice = {1000, 0}, bob = {1001, 0};

static pid_t started[PROCESSES_MAX];
static size_t started_count;

/* ---- a child before it executes a program ---- */

static bool drop_bounding_set(uint64_t keep)
{
    for (unsigned cap = 0; cap < CAPABILITIES && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0)
            return false;
    return true;
}

static bool set_capabilities(uint64_t set)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];

    for (int i = 0; i < 2; i++) {
        uint32_t half = (uint32_t)(set >> 32 * i);
        data[i] = (struct __user_cap_data_struct){half, half, half};
    }
    return syscall(SYS_capset, &header, data) == 0;
}

/* root regains capabilities at exec, within the bounding set; others by the ambient set */
static bool set_user(const struct user *user)
{
    if (user->capabilities == ALL_CAPABILITIES && user->uid == 0)
        return true;
    if (!drop_bounding_set(user->capabilities) || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 ||
        setgroups(0, NULL) != 0 || setresgid(user->uid, user->uid, user->uid) != 0 ||
        setresuid(user->uid, user->uid, user->uid) != 0 || !set_capabilities(user->capabilities))
        return false;
    for (unsigned cap = 0; cap < CAPABILITIES; cap++)
        if (user->uid && user->capabilities >> cap & 1 &&
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) != 0)
            return false;
    return true;
}

static void give_up(const char *what)
{
    dprintf(2, "a child cannot %s: %s\n", what, strerror(errno));
    _exit(120);
}

void process_become(const struct start *start)
{
    const int fds[] = {start->in, start->out, start->err};

    for (int i = 0; i < 3; i++)
        if (fds[i] && dup2(fds[i], i) < 0)
            give_up("have its descriptors");
    if (start->group && !write_file(format("%s/cgroup.procs", start->group), "0"))
        give_up("join a control group");
    if (start->directory && chdir(start->directory) != 0)
        give_up("change its directory");
    if (start->label && !write_file("/proc/thread-self/attr/exec", format("exec %s", start->label)))
        give_up("take a label");
    if (start->user && !set_user(start->user))
        give_up("become a user");
    if (start->consents && prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) != 0)
        give_up("let others trace it");
}

static char *const *environment(const struct start *start)
{
    static char *variables[16];
    size_t count = 0;

    variables[count++] = (char *)(uintptr_t) "PATH=/usr/bin";
    for (const char *const *v = start->variables; v && *v && count < 15; v++)
        variables[count++] = (char *)(uintptr_t)*v;
    variables[count] = NULL;
    return variables;
}

static const char *program(const char *name)
{
    return strchr(name, '/') ? name : format("/usr/bin/%s", name);
}

pid_t process_start(const struct start *start, const char *const *words)
{
    static const struct start plain;
    pid_t pid = fork();

    if (pid == 0) {
        start = start ? start : &plain;
        process_become(start);
        execve(program(words[0]), (char *const *)(uintptr_t)words, environment(start));
        give_up("start");
    }
    if (started_count < PROCESSES_MAX)
        started[started_count++] = pid;
    return pid;
}

bool process_alive(pid_t pid)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

static void forget(pid_t pid)
{
    for (size_t i = 0; i < started_count; i++)
        if (started[i] == pid)
            started[i] = started[--started_count];
}

void process_end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    forget(pid);
}

/* Reaps also processes of others that this first process inherited. */
void processes_end_all(void)
{
    while (started_count)
        process_end(started[started_count - 1]);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

/* ---- one run of a program ---- */

static bool wait_for_end(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd poll_fd = {fd, POLLIN, 0};
    bool ended = fd >= 0 && poll(&poll_fd, 1, TOOL_SECONDS * 1000) == 1;

    if (fd >= 0)
        close(fd);
    return ended;
}

static const char *slurp(const char *path, size_t *len)
{
    static char texts[2][4 << 20];
    static unsigned turn;
    char *text = texts[turn++ % 2];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;

    *len = 0;
    while (fd >= 0 && *len < sizeof(texts[0]) - 1 &&
           (n = read(fd, text + *len, sizeof(texts[0]) - 1 - *len)) > 0)
        *len += (size_t)n;
    if (fd >= 0)
        close(fd);
    text[*len] = '\0';
    return text;
}

struct result process_result(pid_t pid, const char *out_path, const char *err_path)
{
    struct result result = {.code = LATE};
    bool ended = wait_for_end(pid);
    size_t err_len;
    int status = 0;

    if (!ended)
        kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    forget(pid);
    if (ended)
        result.code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    result.out = slurp(out_path, &result.out_len);
    result.err = slurp(err_path, &err_len);
    return result;
}

struct result tool_run(const struct start *start, const char *const *words)
{
    static const char out[] = "/tmp/tool.out", err[] = "/tmp/tool.err";
    struct start own = start ? *start : (struct start){0};

    own.out = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    own.err = open(err, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    pid_t pid = process_start(&own, words);
    close(own.out);
    close(own.err);
    return process_result(pid, out, err);
}

const char *result_text(const struct result *result)
{
    return format("code %d: %.600s", result->code, result->err);
}

bool result_is(const struct result *result, int code, const char *const *words)
{
    bool good = result->code == code;

    for (const char *const *word = words; word && *word; word++)
        good = good && strcasestr(result->err, *word);
    if (!good)
        check_fail("wanted code %d%s%s, got %s", code, words && *words ? " and " : "",
                   words && *words ? *words : "", result_text(result));
    return good;
}
