/* Why the kernel refuses: each cause, and that the first that applies is reported. */
#include "attach/faults.h"
#include "attach/permit.h"
#include "check.h"
#include "inject/faults.h"
#include "proc_text.h"
#include "tree.h"

#include <errno.h>

static struct tree tree;
static struct procfs proc;
static const struct target target = {.proc = &proc, .pid = NO_PID, .pidfd = -1};

static const unsigned long long all_caps = 0x1ffffffffff, sys_ptrace = 1 << 19;

enum { ME = 6, HIM = 5 };

/* The recorded state of the target and of the tool; each test changes a part of it. */
struct situation {
    int tracer;
    unsigned uids[3], gids[3]; /* the target's */
    unsigned long long caps;
    unsigned own_uids[2], own_gids[2]; /* real, effective */
    unsigned long long own_caps;
    int yama; /* YAMA_ABSENT: a kernel without it */
};

static const struct situation plain = {.uids = {ME, ME, ME},
                                       .gids = {ME, ME, ME},
                                       .own_uids = {ME, ME},
                                       .own_gids = {ME, ME},
                                       .yama = YAMA_ABSENT};

static void record(const struct situation *s)
{
    char text[512], name[TREE_PATH_MAX], file[48];

    snprintf(text, sizeof text,
             "Name:\ta\nTracerPid:\t%d\nUid:\t%u\t%u\t%u\t0\nGid:\t%u\t%u\t%u\t0\n"
             "CapPrm:\t%016llx\nCapEff:\t%016llx\n",
             s->tracer, s->uids[0], s->uids[1], s->uids[2], s->gids[0], s->gids[1], s->gids[2],
             s->caps, s->caps);
    snprintf(file, sizeof file, "%d/status", NO_PID);
    CHECK(tree_write(&tree, file, text));
    snprintf(text, sizeof text,
             "Name:\tb\nTracerPid:\t0\nUid:\t%u\t%u\t0\t0\nGid:\t%u\t%u\t0\t0\n"
             "CapPrm:\t%016llx\nCapEff:\t%016llx\nSeccomp:\t0\n",
             s->own_uids[0], s->own_uids[1], s->own_gids[0], s->own_gids[1], s->own_caps,
             s->own_caps);
    CHECK(tree_write(&tree, "self/status", text));
    snprintf(text, sizeof text, "%d\n", s->yama);
    if (s->yama < 0)
        unlink(tree_name(&tree, "sys/kernel/yama/ptrace_scope", name));
    else
        CHECK(tree_write(&tree, "sys/kernel/yama/ptrace_scope", text));
}

static void look(struct permit_view *view, const struct situation *situation)
{
    record(situation);
    CHECK(permit_read(view, &target, 0));
    CHECK(view->kernel == ANSWER_UNKNOWN && !view->filter.refuses[PROBE_PTRACE]);
    if (view->userns == USERNS_UNKNOWN)
        view->userns = USERNS_SAME; /* test_userns.c tests the rest */
}

static bool told(const struct permit_view *view, fault_code code, const char *what)
{
    struct fault fault = {.code = FAULT_NONE};
    fault_code seen = permit_judge(view, &fault);

    if (seen == code && (code == FAULT_NONE || (fault.code == code && strstr(fault.what, what))))
        return true;
    fprintf(stderr, "  code %d instead of %d, \"%s\"\n", (int)seen, (int)code, fault.what);
    return false;
}

static void test_users(void)
{
    struct situation s = plain;
    struct permit_view view;

    look(&view, &s);
    CHECK(told(&view, FAULT_NONE, ""));
    for (size_t i = 0; i < 3; i++) { /* real, effective, saved: each counts */
        s = plain;
        s.uids[i] = HIM;
        look(&view, &s);
        CHECK(told(&view, FAULT_DENIED_UID, "its uid is 5, jeattach runs as 6"));
        s.own_caps = sys_ptrace;
        look(&view, &s);
        CHECK(told(&view, FAULT_NONE, ""));
        s = plain;
        s.gids[i] = HIM;
        look(&view, &s);
        CHECK(told(&view, FAULT_DENIED_GID, "its gid is 5, jeattach runs with 6"));
    }
    for (size_t i = 0; i < 2; i++) { /* the tool's real and its effective id */
        s = plain;
        s.own_uids[i] = 7;
        look(&view, &s);
        CHECK(told(&view, FAULT_DENIED_UID, "its uid is 6, jeattach runs as 7"));
        s = plain;
        s.own_gids[i] = 7;
        look(&view, &s);
        CHECK(told(&view, FAULT_DENIED_GID, "its gid is 6, jeattach runs with 7"));
    }
    s = plain;
    s.own_uids[0] = s.own_uids[1] = 0; /* a root without the capability is an ordinary user */
    s.own_caps = all_caps & ~sys_ptrace;
    look(&view, &s);
    CHECK(told(&view, FAULT_DENIED_UID, "runs as 0"));
}

static void test_capabilities(void)
{
    struct situation s = plain;
    struct permit_view view;

    s.caps = 0x400;
    look(&view, &s);
    CHECK(told(&view, FAULT_DENIED_CAPS, "cap_net_bind_service"));
    s.own_caps = 0x400;
    look(&view, &s);
    CHECK(told(&view, FAULT_NONE, ""));
    s.caps = 0xc00;
    look(&view, &s);
    CHECK(told(&view, FAULT_DENIED_CAPS, "cap_net_broadcast"));
    s.own_caps = sys_ptrace;
    look(&view, &s);
    CHECK(told(&view, FAULT_NONE, ""));
    s = plain;
    s.caps = all_caps;
    look(&view, &s);
    CHECK(
        told(&view, FAULT_DENIED_CAPS, "cap_chown, cap_dac_override, cap_dac_read_search and 38"));
}

static void test_dumpable(void)
{
    struct situation s = plain;
    struct permit_view view;

    look(&view, &s);
    view.dumpable = ANSWER_NO;
    CHECK(told(&view, FAULT_DENIED_DUMPABLE, "not to uid 6"));
    view.dumpable = ANSWER_YES;
    CHECK(told(&view, FAULT_NONE, ""));
    s.own_caps = sys_ptrace;
    look(&view, &s);
    view.dumpable = ANSWER_NO;
    CHECK(told(&view, FAULT_NONE, ""));
}

/* The owner of its files decides: the effective user, or root. */
static void test_dumpable_seen(void)
{
    char environ_name[48], path[TREE_PATH_MAX];
    struct situation s = plain;
    struct permit_view view;

    look(&view, &s);
    CHECK(view.dumpable == ANSWER_UNKNOWN); /* there is no such file */
    snprintf(environ_name, sizeof environ_name, "%d/environ", NO_PID);
    CHECK(tree_write(&tree, environ_name, ""));
    s.uids[1] = geteuid() + 1;
    look(&view, &s);
    CHECK(view.dumpable == ANSWER_NO);
    s.uids[1] = 0;
    look(&view, &s);
    CHECK(view.dumpable == ANSWER_UNKNOWN); /* root's always belong to root */
    if (geteuid() == 0 && chown(tree_name(&tree, environ_name, path), ME, ME) == 0) {
        s.uids[1] = ME;
        look(&view, &s);
        CHECK(view.dumpable == ANSWER_YES);
    }
    unlink(tree_name(&tree, environ_name, path));
}

static void test_namespaces(void)
{
    static const struct {
        enum userns userns;
        bool capable;
        enum answer kernel;
        fault_code code;
    } rows[] = {
        {USERNS_SAME, false, ANSWER_NO, FAULT_NONE},
        {USERNS_SAME, true, ANSWER_NO, FAULT_NONE},
        {USERNS_BELOW, true, ANSWER_NO, FAULT_NONE},
        {USERNS_BELOW, false, ANSWER_NO, FAULT_DENIED_USERNS},
        {USERNS_OWNED, false, ANSWER_NO, FAULT_NONE},
        {USERNS_OUTSIDE, true, ANSWER_NO, FAULT_DENIED_USERNS},
        {USERNS_OUTSIDE, false, ANSWER_UNKNOWN, FAULT_DENIED_USERNS},
        {USERNS_OUTSIDE, true, ANSWER_YES, FAULT_NONE}, /* the kernel decides */
        {USERNS_OTHER, true, ANSWER_NO, FAULT_DENIED_USERNS},
        {USERNS_OTHER, true, ANSWER_UNKNOWN, FAULT_NONE},
        {USERNS_UNKNOWN, true, ANSWER_NO, FAULT_NONE},
    };
    struct situation s = plain;
    struct permit_view view;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        s.own_caps = rows[i].capable ? sys_ptrace : 0;
        look(&view, &s);
        view.userns = rows[i].userns;
        view.kernel = rows[i].kernel;
        if (!CHECK(told(&view, rows[i].code, "jeattach's")))
            fprintf(stderr, "  row %zu\n", i);
    }
    /* A capability without effect there, and another user: the namespace is the cause. */
    s.uids[0] = HIM;
    s.own_caps = sys_ptrace;
    look(&view, &s);
    view.userns = USERNS_OUTSIDE;
    CHECK(told(&view, FAULT_DENIED_USERNS, "not a descendant of jeattach's"));
    view.userns = USERNS_OWNED;
    CHECK(told(&view, FAULT_NONE, ""));
}

static void test_yama(void)
{
    static const struct {
        int yama;
        bool capable;
        fault_code code;
        const char *what;
    } rows[] = {
        {YAMA_ABSENT, false, FAULT_NONE, ""},
        {0, false, FAULT_NONE, ""},
        {1, false, FAULT_DENIED_YAMA, "1"},
        {2, false, FAULT_DENIED_YAMA, "2"},
        {3, false, FAULT_DENIED_YAMA, "3"},
        {1, true, FAULT_NONE, ""},
        {2, true, FAULT_NONE, ""},
        {3, true, FAULT_DENIED_YAMA, "3"},
    };
    struct permit_view view;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct situation s = plain;
        s.yama = rows[i].yama;
        s.own_caps = rows[i].capable ? sys_ptrace : 0;
        look(&view, &s);
        if (!CHECK(told(&view, rows[i].code, rows[i].what)))
            fprintf(stderr, "  row %zu\n", i);
        /* An ancestor, or a tracer that it has named: no file shows that the kernel allows it. */
        view.kernel = ANSWER_YES;
        CHECK(told(&view, FAULT_NONE, ""));
    }
}

static void test_filter(void)
{
    struct permit_view view;

    look(&view, &plain);
    view.filter.refuses[PROBE_PTRACE] = EPERM;
    CHECK(told(&view, FAULT_DENIED_SECCOMP, "ptrace with EPERM"));
    view.kernel = ANSWER_YES; /* to another call: that does not help */
    CHECK(told(&view, FAULT_DENIED_SECCOMP, "ptrace with EPERM"));
    view.filter.refuses[PROBE_PTRACE] = ENOSYS;
    CHECK(told(&view, FAULT_DENIED_SECCOMP, "ptrace with ENOSYS"));
    view.filter.refuses[PROBE_PTRACE] = PROBE_KILLED;
    CHECK(told(&view, FAULT_DENIED_SECCOMP, "it kills callers of ptrace"));
    view.filter.refuses[PROBE_PTRACE] = 0;
    view.filter.refuses[PROBE_VM] = ENOSYS; /* another way to read works */
    CHECK(told(&view, FAULT_NONE, ""));
    view.memory_refused = true; /* none works */
    CHECK(told(&view, FAULT_DENIED_SECCOMP, "process_vm_readv with ENOSYS"));
}

static void test_module(void)
{
    struct situation s = plain;
    struct permit_view view;

    s.own_caps = sys_ptrace;
    look(&view, &s);
    view.lsm = (struct lsm){LSM_APPARMOR, "docker-default (enforce)", "unconfined"};
    CHECK(told(&view, FAULT_NONE, "")); /* it may, until the kernel refuses */
    view.kernel = ANSWER_YES;
    CHECK(told(&view, FAULT_NONE, ""));
    view.kernel = ANSWER_NO;
    CHECK(
        told(&view, FAULT_DENIED_LSM, "AppArmor: jeattach runs under the profile docker-default"));
    view.lsm = (struct lsm){LSM_SELINUX, "a:b:container_t:s0", ""};
    CHECK(told(&view, FAULT_DENIED_LSM, "SELinux is enforcing: jeattach runs as a:b:container_t"));
    view.lsm.kind = LSM_NONE;
    CHECK(told(&view, FAULT_NONE, ""));
}

static void test_freezer(void)
{
    struct permit_view view;

    look(&view, &plain);
    view.freezer = FREEZER_V2;
    snprintf(view.cgroup, sizeof view.cgroup, "/sys/fs/cgroup/x");
    view.kernel = ANSWER_YES;
    CHECK(told(&view, FAULT_FROZEN, "/sys/fs/cgroup/x"));
}

/* All causes at once: removing one reveals the next. */
static void test_order(void)
{
    struct situation s = {.tracer = 9,
                          .uids = {HIM, HIM, HIM},
                          .gids = {HIM, HIM, HIM},
                          .caps = all_caps,
                          .own_uids = {ME, ME},
                          .own_gids = {ME, ME},
                          .yama = 3};
    struct permit_view view;

    look(&view, &s);
    view.dumpable = ANSWER_NO;
    view.kernel = ANSWER_NO;
    view.lsm = (struct lsm){LSM_APPARMOR, "x (enforce)", ""};
    view.filter.refuses[PROBE_PTRACE] = EPERM;
    view.freezer = FREEZER_V2;
    CHECK(told(&view, FAULT_TRACED, "gdb"));
    view.its.tracer = 0;
    CHECK(told(&view, FAULT_DENIED_UID, "uid is 5"));
    view.its.uid = view.its.euid = view.its.suid = ME;
    CHECK(told(&view, FAULT_DENIED_GID, "gid is 5"));
    view.its.gid = view.its.egid = view.its.sgid = ME;
    CHECK(told(&view, FAULT_DENIED_DUMPABLE, ""));
    view.dumpable = ANSWER_YES;
    CHECK(told(&view, FAULT_DENIED_CAPS, ""));
    view.userns = USERNS_OUTSIDE;
    CHECK(told(&view, FAULT_DENIED_USERNS, ""));
    view.userns = USERNS_SAME;
    view.own.cap_permitted = view.own.cap_effective = all_caps;
    CHECK(told(&view, FAULT_DENIED_YAMA, "3"));
    view.yama = 2;
    CHECK(told(&view, FAULT_DENIED_SECCOMP, "EPERM"));
    view.filter.refuses[PROBE_PTRACE] = 0;
    CHECK(told(&view, FAULT_DENIED_LSM, "AppArmor"));
    view.kernel = ANSWER_YES;
    CHECK(told(&view, FAULT_FROZEN, ""));
    view.freezer = FREEZER_NONE;
    CHECK(told(&view, FAULT_NONE, ""));
}

/* A tracer is named; one with an unreadable stat has only a pid. The tool itself does not count. */
static void test_tracer(void)
{
    struct situation s = plain;
    struct fault fault = {.code = FAULT_DENIED};

    s.tracer = 9;
    record(&s);
    CHECK(permit_explain(&target, 0, &fault) == FAULT_TRACED);
    CHECK(fault.code == FAULT_TRACED && fault.pid == 9 && strcmp(fault.what, "gdb") == 0);
    s.tracer = 11;
    record(&s);
    fault.code = FAULT_DENIED;
    CHECK(permit_explain(&target, 0, &fault) == FAULT_TRACED);
    CHECK(fault.pid == 11 && strcmp(fault.what, "?") == 0);
    CHECK(permit_explain(&target, 0, NULL) == FAULT_TRACED);
    s.tracer = getpid();
    record(&s);
    fault.code = FAULT_DENIED;
    CHECK(permit_explain(&target, 0, &fault) == FAULT_DENIED);
}

/* Each thread has a tracer of its own. */
static void test_thread(void)
{
    char name[48];
    struct permit_view view;

    record(&plain);
    snprintf(name, sizeof name, "%d/task/17/status", NO_PID);
    CHECK(tree_write(&tree, name, "Name:\ta\nTracerPid:\t9\n"));
    CHECK(permit_read(&view, &target, 17) && told(&view, FAULT_TRACED, "gdb"));
    CHECK(permit_read(&view, &target, 0) && view.its.tracer == 0);
    CHECK(!permit_read(&view, &target, 18));
}

static void test_capable(void)
{
    struct situation s = plain;

    s.own_caps = all_caps;
    record(&s);
    CHECK(permit_tool_is_capable(&proc));
    s.own_caps = sys_ptrace;
    record(&s);
    CHECK(permit_tool_is_capable(&proc));
    s.own_caps = all_caps & ~sys_ptrace;
    record(&s);
    CHECK(!permit_tool_is_capable(&proc));
}

/* Unreadable files explain nothing, and leave the fault unchanged. */
static void test_unreadable(void)
{
    const struct target nobody = {.proc = &proc, .pid = NO_PID + 1, .pidfd = -1};
    struct fault fault = {.code = FAULT_DENIED, .err = EACCES, .stage = "read maps"};
    bool certain = true;

    CHECK(permit_explain(&nobody, 0, &fault) == FAULT_DENIED);
    CHECK(fault.code == FAULT_DENIED && fault.err == EACCES && !strcmp(fault.stage, "read maps"));
    CHECK(permit_forecast(&nobody, 0, &certain, &fault) == FAULT_NONE && !certain);
    fault.code = FAULT_NO_STOP;
    CHECK(permit_explain(&target, 0, &fault) == FAULT_NO_STOP);
    fault.code = FAULT_NO_SAFE_POINT;
    CHECK(permit_explain(&target, 0, &fault) == FAULT_NO_SAFE_POINT);
}

/* Only by the rules, since there is no such process to ask about. */
static void test_forecast(void)
{
    struct situation s = plain;
    struct fault fault = {.code = FAULT_NONE};
    bool certain = true;

    record(&s);
    CHECK(permit_forecast(&target, 0, &certain, &fault) == FAULT_NONE);
    CHECK(fault.code == FAULT_NONE && !certain);
    s.uids[0] = HIM;
    record(&s);
    CHECK(permit_forecast(&target, 0, &certain, &fault) == FAULT_DENIED_UID && !certain);
    s.tracer = 9;
    record(&s);
    CHECK(permit_forecast(&target, 0, &certain, &fault) == FAULT_TRACED && certain);
}

/* /proc of this system, and one in which this process has another pid. */
static void test_procfs(void)
{
    struct procfs real, other;
    struct tree strange;
    struct fault fault;

    if (CHECK(procfs_open(&real, "/proc") == 0))
        CHECK(permit_check_procfs(&real, &fault) == FAULT_NONE);
    procfs_close(&real);
    if (!CHECK(tree_make(&strange)) || !CHECK(procfs_open(&other, strange.path) == 0))
        return;
    CHECK(permit_check_procfs(&other, &fault) == FAULT_PROCFS && fault.err == ENOENT);
    CHECK(tree_link(&strange, "self", "5000001"));
    CHECK(permit_check_procfs(&other, &fault) == FAULT_PROCFS);
    CHECK(strstr(fault.what, "5000001"));
    procfs_close(&other);
    tree_remove(&strange);
}

int main(void)
{
    const struct stat_line tracer = {9, "gdb", 'S', 1, 64, 1, 1, 500, 0};
    char text[2048];

    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    stat_text(&tracer, text, sizeof text);
    CHECK(tree_write(&tree, "9/stat", text));
    test_users();
    test_capabilities();
    test_dumpable();
    test_dumpable_seen();
    test_namespaces();
    test_yama();
    test_filter();
    test_module();
    test_freezer();
    test_order();
    test_tracer();
    test_thread();
    test_capable();
    test_unreadable();
    test_forecast();
    test_procfs();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
