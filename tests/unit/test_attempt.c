/* The last look before a stop, for a thread that /proc shows in a system call. */
#include "check.h"
#include "inject/attempt.h"
#include "inject/faults.h"
#include "tree.h"

enum { PID = 0x7fff0000 }; /* no process has it */

static struct tree tree;
static struct procfs proc;
static struct gate gate;

static void write_text(const char *file, const char *text)
{
    char name[64];

    snprintf(name, sizeof name, "%d/task/%d/%s", PID, PID, file);
    CHECK(tree_write(&tree, name, text));
}

/* Returns the number of ptrace calls of an attempt at a thread that ran when it was listed. */
static unsigned requests(const char *syscall, const char *wchan)
{
    static struct stops stops;
    const struct target target = {.proc = &proc, .pid = PID, .pidfd = -1};
    const struct deadline deadline = {.at = UINT64_MAX};
    struct plan plan = {0};
    struct memory memory = {.memfd = -1, .mapsfd = -1};
    struct injection injection = {.env = {.target = &target,
                                          .memory = &memory,
                                          .plan = &plan,
                                          .gate = &gate,
                                          .deadline = &deadline},
                                  .stops = &stops};
    const struct ranked ranked = {.thread = {.tid = PID, .state = 'R'}};
    const struct injection_summary *summary = &injection.summary;
    unsigned before = gate.count;
    struct fault fault;

    write_text("syscall", syscall);
    write_text("wchan", wchan);
    enum attempt result = attempt_thread(&injection, &ranked, &fault);
    if (gate.count == before) {
        CHECK(result == ATTEMPT_UNSAFE && summary->attempts == 0);
        CHECK(summary->rejected.proof == PROOF_SYSCALL && summary->rejected_tid == PID);
    }
    return gate.count - before;
}

#define AT(nr) nr " 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffd00001000 0x401000\n"

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    gate_init(&gate);
    CHECK(requests("running\n", "0") > 0);
    CHECK(requests(AT("0"), "pipe_read") > 0);
    CHECK(requests(AT("1"), "pipe_write") == 0);
    /* A supervisor would be notified of it again. */
    CHECK(requests(AT("0"), "seccomp_do_user_notification.isra.0") == 0);
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
