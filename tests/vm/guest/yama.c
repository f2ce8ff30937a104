/*
 * kernel.yama.ptrace_scope: who may attach in each of its four settings, and the messages for the
 * others (Documentation/admin-guide/LSM/Yama.rst).
 */
#include "guest.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SCOPE "/proc/sys/kernel/yama/ptrace_scope"

enum relation {
    STRANGER,
    CHILD,    /* the target is a child of the tool */
    CONSENTS, /* the target allows every tracer, by PR_SET_PTRACER */
};

static const struct user tracer = {1000, 1ull << CAP_SYS_PTRACE};

struct attempt {
    const char *name;
    const struct user *tool, *target;
    enum relation relation;
    int code;
    const char *words[5]; /* words of the cause and the fix */
};

/* The tool replaces the process whose child the target is. */
static pid_t start_parent(struct victim *victim, const struct attempt *attempt, int out, int err)
{
    const char *const *words = victim_words(victim, "nanosleep", "30");
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    process_become(&(struct start){.user = attempt->tool});
    pid_t child = fork();
    if (child == 0) {
        char *const variables[] = {
            (char *)(uintptr_t) "MALLOC_CONF=prof:true,prof_active:false,lg_prof_sample:12", NULL};
        execve(words[0], (char *const *)(uintptr_t)words, variables);
        _exit(120);
    }
    if (!victim_ready(victim))
        _exit(121);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execl("/usr/bin/jeattach", "jeattach", "on", "--call", text_of(child), NULL);
    _exit(122);
}

static struct result attach_as_parent(const struct attempt *attempt)
{
    static const char out[] = "/tmp/parent.out", err[] = "/tmp/parent.err";
    int out_fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int err_fd = open(err, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct victim victim;
    pid_t pid = start_parent(&victim, attempt, out_fd, err_fd);

    close(out_fd);
    close(err_fd);
    return process_result(pid, out, err);
}

static struct result attach_from_outside(const struct attempt *attempt)
{
    struct start target = {.user = attempt->target, .consents = attempt->relation == CONSENTS};
    struct start tool = {.user = attempt->tool};
    struct victim victim;

    if (!victim_start(&victim, "nanosleep", "30", &target))
        return (struct result){.code = LATE, .out = "", .err = ""};
    const char *pid = text_of(victim.pid);
    struct result result =
        tool_run(&tool, (const char *const[]){"jeattach", "on", "--call", pid, NULL});
    victim_unharmed(&victim);
    return result;
}

static void attempt_one(const struct attempt *attempt)
{
    struct result result =
        attempt->relation == CHILD ? attach_as_parent(attempt) : attach_from_outside(attempt);

    if (!result_is(&result, attempt->code, attempt->words))
        check_fail("%s", attempt->name);
    processes_end_all();
}

static void scope_is(const char *scope, const struct attempt *attempts, size_t count)
{
    if (access(SCOPE, F_OK) != 0) {
        check_skip("this kernel has no yama");
        return;
    }
    REQUIRE(write_file(SCOPE, scope) && strncmp(read_file(SCOPE), scope, 1) == 0,
            "the scope cannot be set");
    for (size_t i = 0; i < count; i++)
        attempt_one(&attempts[i]);
}

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void scope_0(void)
{
    static const struct attempt attempts[] = {
        {"root", &root, &alice, STRANGER, 0, {NULL}},
        {"the same user", &alice, &alice, STRANGER, 0, {NULL}},
        {"another user", &bob, &alice, STRANGER, 4, {"another user", "1000", NULL}},
        {"a user, at root's", &alice, &root, STRANGER, 4, {"another user", NULL}},
    };

    scope_is("0", attempts, COUNT(attempts));
}

static void scope_1(void)
{
    static const struct attempt attempts[] = {
        {"root", &root, &alice, STRANGER, 0, {NULL}},
        {"CAP_SYS_PTRACE", &tracer, &alice, STRANGER, 0, {NULL}},
        {"a stranger", &alice, &alice, STRANGER, 4, {"yama", "ptrace_scope is 1", NULL}},
        {"its parent", &alice, &alice, CHILD, 0, {NULL}},
        {"by its consent", &alice, &alice, CONSENTS, 0, {NULL}},
        {"another user", &bob, &alice, STRANGER, 4, {"another user", NULL}},
    };

    scope_is("1", attempts, COUNT(attempts));
}

static void scope_2(void)
{
    static const struct attempt attempts[] = {
        {"root", &root, &alice, STRANGER, 0, {NULL}},
        {"CAP_SYS_PTRACE", &tracer, &alice, STRANGER, 0, {NULL}},
        {"a stranger", &alice, &alice, STRANGER, 4, {"yama", "ptrace_scope is 2", NULL}},
        {"its parent", &alice, &alice, CHILD, 4, {"yama", "ptrace_scope is 2", NULL}},
        {"in spite of its consent", &alice, &alice, CONSENTS, 4, {"yama", "2", NULL}},
        {"another user", &bob, &alice, STRANGER, 4, {"another user", NULL}},
    };

    scope_is("2", attempts, COUNT(attempts));
}

static void scope_3(void)
{
    static const struct attempt attempts[] = {
        {"root", &root, &alice, STRANGER, 4, {"ptrace_scope is 3", "machine", NULL}},
        {"root, at its own", &root, &root, STRANGER, 4, {"ptrace_scope is 3", "machine", NULL}},
        {"the same user", &alice, &alice, STRANGER, 4, {"ptrace_scope is 3", "machine", NULL}},
        {"its parent", &alice, &alice, CHILD, 4, {"ptrace_scope is 3", "machine", NULL}},
    };

    scope_is("3", attempts, COUNT(attempts));
}

const struct check yama_checks[] = {
    {"yama.0", scope_0, false}, {"yama.1", scope_1, false}, {"yama.2", scope_2, false},
    {"yama.3", scope_3, false}, {NULL, NULL, false},
};
