/* Why the kernel refused: one cause, in the kernel's own order. */
#include "attach/permit.h"
#include "check.h"
#include "proc_text.h"
#include "tree.h"

#include <errno.h>

static struct tree tree;
static struct procfs proc;

/* What is recorded of the target and of the tool. */
struct situation {
    int tracer;
    unsigned uid, euid; /* the target's */
    unsigned long long caps;
    unsigned own_euid;
    unsigned long long own_caps;
    int yama; /* -1: a kernel without yama */
    enum fault_code code;
    const char *what; /* part of it */
};

static const unsigned long long all_caps = 0x1ffffffffff, sys_ptrace = 1 << 19;

static void record(const struct situation *s)
{
    char text[256], name[TREE_PATH_MAX];

    snprintf(text, sizeof text, "Name:\ta\nTracerPid:\t%d\nUid:\t%u\t%u\t0\t0\nCapPrm:\t%016llx\n",
             s->tracer, s->uid, s->euid, s->caps);
    CHECK(tree_write(&tree, "4242/status", text));
    snprintf(text, sizeof text, "Name:\tb\nTracerPid:\t0\nUid:\t77\t%u\t0\t0\nCapPrm:\t%016llx\n",
             s->own_euid, s->own_caps);
    CHECK(tree_write(&tree, "self/status", text));
    snprintf(text, sizeof text, "%d\n", s->yama);
    if (s->yama < 0)
        unlink(tree_name(&tree, "sys/kernel/yama/ptrace_scope", name));
    else
        CHECK(tree_write(&tree, "sys/kernel/yama/ptrace_scope", text));
}

static void test_situations(void)
{
    const struct situation rows[] = {
        /* another tracer comes before everything else */
        {9, 5, 5, all_caps, 0, all_caps, 3, FAULT_TRACED, "gdb"},
        {9, 5, 5, 0, 6, 0, 1, FAULT_TRACED, "gdb"},
        /* yama 3 stops even root */
        {0, 5, 5, 0, 0, all_caps, 3, FAULT_DENIED_YAMA, "3"},
        {0, 5, 5, 0, 6, 0, 3, FAULT_DENIED_YAMA, "3"},
        /* with CAP_SYS_PTRACE nothing else explains it */
        {0, 5, 5, all_caps, 6, sys_ptrace, 2, FAULT_DENIED, ""},
        {0, 5, 5, 0, 0, all_caps, -1, FAULT_DENIED, ""},
        /* another user: real or effective */
        {0, 5, 5, 0, 6, 0, 0, FAULT_DENIED_UID, "uid 5, the tool runs as 6"},
        {0, 5, 6, 0, 6, 0, 0, FAULT_DENIED_UID, "uid 5"},
        {0, 6, 5, 0, 6, 0, 0, FAULT_DENIED_UID, "runs as 6"},
        {0, 5, 5, 0, 6, sys_ptrace - 1, 1, FAULT_DENIED_UID, ""},
        /* capabilities that the tool has not */
        {0, 6, 6, 0x400, 6, 0, 0, FAULT_DENIED_CAPS, "0x400"},
        {0, 6, 6, 0xc00, 6, 0x800, 1, FAULT_DENIED_CAPS, "0x400"},
        /* yama, between processes of one user */
        {0, 6, 6, 0, 6, 0, 1, FAULT_DENIED_YAMA, "1"},
        {0, 6, 6, 0x400, 6, 0x400, 2, FAULT_DENIED_YAMA, "2"},
        /* what is left */
        {0, 6, 6, 0, 6, 0, 0, FAULT_DENIED_CAPS, "not dumpable"},
        {0, 6, 6, 0, 6, 0, -1, FAULT_DENIED_CAPS, "not dumpable"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct target target = {.proc = &proc, .pid = 4242, .pidfd = -1};
        struct fault fault = {.code = FAULT_DENIED, .err = EPERM};
        record(&rows[i]);
        enum fault_code code = permit_explain(&target, 0, &fault);
        if (!CHECK(code == rows[i].code && fault.code == code && strstr(fault.what, rows[i].what)))
            fprintf(stderr, "  row %zu: code %d, \"%s\"\n", i, (int)code, fault.what);
        CHECK(fault.pid == rows[i].tracer);
    }
}

/* A tracer whose stat cannot be read has no name, but a pid. */
static void test_unknown_tracer(void)
{
    const struct situation traced = {.tracer = 11};
    const struct target target = {.proc = &proc, .pid = 4242, .pidfd = -1};
    struct fault fault = {.code = FAULT_DENIED};

    record(&traced);
    CHECK(permit_explain(&target, 0, &fault) == FAULT_TRACED);
    CHECK(fault.pid == 11 && strcmp(fault.what, "?") == 0);
    CHECK(permit_explain(&target, 0, NULL) == FAULT_TRACED);
}

static void test_capable(void)
{
    const struct situation root = {.own_caps = all_caps}, some = {.own_caps = sys_ptrace},
                           contained = {.own_caps = all_caps & ~sys_ptrace};

    record(&root);
    CHECK(permit_tool_is_capable(&proc));
    record(&some);
    CHECK(permit_tool_is_capable(&proc));
    record(&contained);
    CHECK(!permit_tool_is_capable(&proc));
}

static void test_unreadable(void)
{
    const struct target target = {.proc = &proc, .pid = 4243, .pidfd = -1};
    struct fault fault = {.code = FAULT_DENIED, .err = EACCES, .stage = "read maps"};

    CHECK(permit_explain(&target, 0, &fault) == FAULT_DENIED);
    CHECK(fault.code == FAULT_DENIED && fault.err == EACCES && !strcmp(fault.stage, "read maps"));
}

int main(void)
{
    const struct stat_line tracer = {9, "gdb", 'S', 1, 64, 1, 1, 500, 0};
    char text[2048];

    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    stat_text(&tracer, text, sizeof text);
    CHECK(tree_write(&tree, "9/stat", text));
    test_situations();
    test_unknown_tracer();
    test_capable();
    test_unreadable();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
