/*
 * The growth of a process, step by step: beside other uses of its attachment, and where the
 * kernel refuses page faults or the pagemap.
 */
#include "check.h"
#include "perf/faults.h"
#include "run/faults.h"
#include "run/grow/grow.h"
#include "tree.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, MIB = 1 << 20 };

static const uint64_t SECOND = 1000000000;

/* ---- a process that touches memory on request ---- */

struct toucher {
    pid_t pid;
    int in, out;
};

/* Each byte is a number of MiB. */
__attribute__((noreturn)) static void touch_all(int in, int out)
{
    unsigned char megabytes;

    while (read(in, &megabytes, 1) == 1) {
        size_t len = (size_t)megabytes * MIB;
        char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory, len, MADV_NOHUGEPAGE);
        memset(memory, 1, len);
        if (write(out, "", 1) != 1)
            break;
    }
    _exit(0);
}

static bool toucher_start(struct toucher *toucher)
{
    int in[2], out[2];

    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        return false;
    toucher->pid = fork();
    if (toucher->pid == 0) {
        close(in[1]);
        close(out[0]);
        touch_all(in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    toucher->in = in[1];
    toucher->out = out[0];
    return toucher->pid > 0;
}

static bool touch(const struct toucher *toucher, unsigned char megabytes)
{
    char answer;

    return write(toucher->in, &megabytes, 1) == 1 && read(toucher->out, &answer, 1) == 1;
}

static void toucher_end(const struct toucher *toucher)
{
    close(toucher->in);
    close(toucher->out);
    waitpid(toucher->pid, NULL, 0);
}

/* ---- a run ---- */

struct watched {
    struct toucher toucher;
    struct attachment attachment;
    struct grow grow;
    struct fault fault;
};

static fault_code watched_map(struct watched *watched)
{
    const struct attach_request request = {.pid = watched->toucher.pid, .timeout_ns = 20 * SECOND};
    const struct grow_request wanted = {.duration_ns = SECOND, .period = 1};

    grow_init(&watched->grow, &wanted);
    return attachment_map(&watched->attachment, &request, &watched->fault);
}

static fault_code watched_begin(struct watched *watched)
{
    fault_code rc = watched_map(watched);

    if (rc == FAULT_NONE)
        rc = grow_begin(&watched->grow, &watched->attachment, &watched->fault);
    attachment_rest(&watched->attachment);
    return rc;
}

static bool watched_step(struct watched *watched, uint64_t ns)
{
    return grow_step(&watched->grow, clock_now() + ns, &watched->fault) == FAULT_NONE;
}

static void watched_end(struct watched *watched)
{
    grow_free(&watched->grow);
    attachment_close(&watched->attachment);
}

static double mib(const struct grow *grow, double pages)
{
    return grow_bytes(grow, pages) / MIB;
}

/* The attachment gets other modules in the middle of it, as attachment_renew does. */
static bool modules_replaced(struct watched *watched)
{
    struct attachment *attachment = &watched->attachment;

    modules_free(&attachment->modules);
    memory_set_unchanging(&attachment->memory, NULL, 0);
    return modules_load(&attachment->modules, &attachment->target, &watched->fault) == FAULT_NONE;
}

/* A look that ends too soon counts as none. */
static bool late_look(struct watched *watched)
{
    const volatile sig_atomic_t signal = 1;
    const struct deadline over = {.at = 0}, ended = {.at = UINT64_MAX, .interrupted = &signal};
    struct attachment *attachment = &watched->attachment;
    struct grow_pages *pages = &watched->grow.pages;
    const unsigned looks = pages->looks;

    return grow_pages_look(pages, &attachment->target, &attachment->memory, &over,
                           &watched->fault) == FAULT_TOO_LATE &&
           grow_pages_look(pages, &attachment->target, &attachment->memory, &ended,
                           &watched->fault) == FAULT_INTERRUPTED &&
           pages->looks == looks;
}

static bool is_refused(fault_code code)
{
    return fault_class_of(code) == FAULT_CLASS_DENIED;
}

static int test_steps(void)
{
    struct watched watched = {.toucher = {0}};
    const struct grow *grow = &watched.grow;
    uint64_t before;

    if (!CHECK(toucher_start(&watched.toucher)))
        return 0;
    CHECK(watched_begin(&watched) == FAULT_NONE);
    if (is_refused(grow->refused.code)) {
        toucher_end(&watched.toucher);
        watched_end(&watched);
        return SKIPPED;
    }
    CHECK(touch(&watched.toucher, 8) && watched_step(&watched, SECOND));
    CHECK(modules_replaced(&watched));
    CHECK(touch(&watched.toucher, 8) && watched_step(&watched, 0));
    before = clock_now();
    CHECK(watched_step(&watched, 10000000) && clock_now() < before + SECOND);
    CHECK(late_look(&watched));
    CHECK(grow_finish(&watched.grow, &watched.fault) == FAULT_NONE);
    CHECK(mib(grow, (double)grow->sum.gained) >= 16 && mib(grow, (double)grow->sum.gained) < 18);
    CHECK(mib(grow, grow->sum.by_stack + grow->sum.in_flight) > 15);
    CHECK(grow->walks > 0 && grow->sum.samples > 100);
    CHECK(grow->capture.taken && !grow->ended.code && !grow->blind.code);
    CHECK(grow_rss(grow) >= 16 * MIB);
    toucher_end(&watched.toucher);
    watched_end(&watched);
    return 0;
}

/* What was seen before the end of the process is the result. */
static void test_end(void)
{
    struct watched watched = {.toucher = {0}};
    const struct grow *grow = &watched.grow;
    fault_code rc = FAULT_NONE;

    if (!CHECK(toucher_start(&watched.toucher)))
        return;
    CHECK(watched_begin(&watched) == FAULT_NONE);
    CHECK(touch(&watched.toucher, 8));
    for (unsigned looks = grow->pages.looks; grow->pages.looks == looks && rc == FAULT_NONE;)
        rc = grow_step(&watched.grow, clock_now() + SECOND, &watched.fault);
    CHECK(rc == FAULT_NONE);
    toucher_end(&watched.toucher);
    CHECK(fault_is_gone(grow_step(&watched.grow, clock_now() + SECOND, &watched.fault)));
    CHECK(grow_finish(&watched.grow, &watched.fault) == FAULT_NONE);
    CHECK(fault_is_gone(grow->ended.code) && mib(grow, (double)grow->sum.gained) >= 8);
    watched_end(&watched);
}

/* ---- refusals ---- */

/* From now on this call fails in this process. */
static bool refuse(long nr, int err)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Which pages were gained is exact without a sample, too. */
static void test_without_samples(void)
{
    struct watched watched = {.toucher = {0}};
    const struct grow *grow = &watched.grow;

    if (!CHECK(toucher_start(&watched.toucher)))
        return;
    CHECK(watched_begin(&watched) == FAULT_NONE);
    CHECK(grow->refused.code == FAULT_PERF_SECCOMP && !grow->blind.code);
    CHECK(touch(&watched.toucher, 8) && watched_step(&watched, SECOND));
    CHECK(grow_finish(&watched.grow, &watched.fault) == FAULT_NONE);
    CHECK(mib(grow, (double)grow->sum.gained) >= 8 && grow->sum.samples == 0);
    CHECK(mib(grow, grow->sum.nobody) >= 8 && grow_net(grow) >= 8 * MIB);
    toucher_end(&watched.toucher);
    watched_end(&watched);
}

/* A /proc that has not all files of the process: as where an LSM refuses some. */
static bool lacks_pagemap(struct tree *tree, struct attachment *attachment)
{
    static const char *const names[] = {"maps", "stat", "status", "task"};
    char name[64], real[80];
    bool good = tree_make(tree);

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(name, sizeof name, "%d/%s", (int)attachment->target.pid, names[i]);
        snprintf(real, sizeof real, "/proc/%s", name);
        good = good && tree_link(tree, name, real);
    }
    close(attachment->proc.dirfd);
    attachment->proc.dirfd = open(tree->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return good && attachment->proc.dirfd >= 0;
}

/* Only the usage at both ends is known. */
static void test_blind(void)
{
    struct watched watched = {.toucher = {0}};
    const struct grow *grow = &watched.grow;
    struct tree tree;

    if (!CHECK(toucher_start(&watched.toucher)) || !CHECK(watched_map(&watched) == FAULT_NONE))
        return;
    CHECK(lacks_pagemap(&tree, &watched.attachment));
    CHECK(grow_begin(&watched.grow, &watched.attachment, &watched.fault) == FAULT_NONE);
    CHECK(grow->blind.code == FAULT_UNSUPPORTED && grow->refused.code == FAULT_UNSUPPORTED);
    CHECK(touch(&watched.toucher, 8) && watched_step(&watched, 10000000));
    CHECK(grow_finish(&watched.grow, &watched.fault) == FAULT_NONE);
    CHECK(grow_rss(grow) >= 8 * MIB && grow_rss(grow) < 10 * MIB);
    CHECK(grow->sum.gained == 0 && !grow->capture.taken && grow_net(grow) == 0);
    toucher_end(&watched.toucher);
    watched_end(&watched);
    tree_remove(&tree);
}

int main(void)
{
    int rc = test_steps();

    test_end();
    if (rc == 0 && CHECK(refuse(SYS_perf_event_open, EPERM))) {
        test_without_samples();
        test_blind();
    }
    if (rc == SKIPPED && !checks_failed) {
        puts("SKIP: page faults may not be sampled here");
        return SKIPPED;
    }
    return check_result();
}
