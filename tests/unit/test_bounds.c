/* Threads that the kernel restricts individually, by their status files. */
#include "check.h"
#include "inject/candidates.h"
#include "proc_text.h"
#include "tree.h"

#include <limits.h>

enum { FIRST = 4242, OTHER, THIRD };

#define SIGSYS_ALONE 0x40000000ull
#define EVERY_SIGNAL 0xfffffffe7ffbfeffull

static struct tree tree;
static struct procfs proc;
static struct target target = {.proc = &proc, .pid = FIRST, .pidfd = -1};
static struct plan plan;
static struct injection_env env = {.target = &target, .plan = &plan};

/* The thread with the least CPU time is the first choice. */
static void write_thread(int tid, char state, unsigned ticks, const char *bounds)
{
    const struct stat_line line = {tid, "a", state, 1, 64, ticks, 1, 1000, 0};
    char text[2048], name[64];

    stat_text(&line, text, sizeof text);
    snprintf(name, sizeof name, "%d/task/%d/stat", FIRST, tid);
    CHECK(tree_write(&tree, name, text));
    snprintf(name, sizeof name, "%d/task/%d/status", FIRST, tid);
    snprintf(text, sizeof text, "Name:\ta\n%s", bounds);
    CHECK(tree_write(&tree, name, text));
}

static enum proof bounds_of(pid_t tid)
{
    struct candidates candidates;
    enum proof proof = PROOF_PC;

    if (!CHECK(candidates_list(&candidates, &env, NULL) == FAULT_NONE))
        return proof;
    for (size_t i = 0; i < candidates.count; i++)
        if (candidates.list[i].thread.tid == tid)
            proof = candidates_bounds(&candidates, &candidates.list[i], &env);
    candidates_free(&candidates);
    return proof;
}

static const char none[] = "Seccomp:\t0\nSeccomp_filters:\t0\n";
static const char strict[] = "Seccomp:\t1\nSeccomp_filters:\t0\n";
static const char one[] = "Seccomp:\t2\nSeccomp_filters:\t1\n";
static const char two[] = "Seccomp:\t2\nSeccomp_filters:\t2\n";
static const char uncounted[] = "Seccomp:\t2\n"; /* before Linux 5.9 */

static void test_filters(void)
{
    write_thread(FIRST, 'S', 90, none);
    write_thread(OTHER, 'S', 10, one);
    CHECK(bounds_of(OTHER) == PROOF_FILTERED && bounds_of(FIRST) == PROOF_SAFE);
    write_thread(FIRST, 'S', 90, one);
    CHECK(bounds_of(OTHER) == PROOF_SAFE && bounds_of(FIRST) == PROOF_SAFE);
    write_thread(OTHER, 'S', 10, two);
    CHECK(bounds_of(OTHER) == PROOF_FILTERED && bounds_of(FIRST) == PROOF_SAFE);
    write_thread(OTHER, 'S', 10, none);
    CHECK(bounds_of(OTHER) == PROOF_SAFE && bounds_of(FIRST) == PROOF_FILTERED);
    write_thread(FIRST, 'S', 90, none);
    write_thread(OTHER, 'S', 10, uncounted);
    CHECK(bounds_of(OTHER) == PROOF_FILTERED);
    env.named = true;
    CHECK(bounds_of(OTHER) == PROOF_SAFE);
    env.named = false;
}

/* A first thread that cannot be stopped at the moment still has no filter; a dead one shows
   nothing. */
static void test_first(void)
{
    write_thread(FIRST, 'D', 90, none);
    write_thread(OTHER, 'S', 10, one);
    CHECK(bounds_of(OTHER) == PROOF_FILTERED);
    write_thread(FIRST, 'Z', 90, none);
    CHECK(bounds_of(OTHER) == PROOF_SAFE);
}

/* Strict seccomp is not a filter: the other threads are still used. */
static void test_strict(void)
{
    write_thread(FIRST, 'S', 90, strict);
    write_thread(OTHER, 'S', 10, one);
    write_thread(THIRD, 'S', 20, one);
    CHECK(bounds_of(FIRST) == PROOF_STRICT);
    CHECK(bounds_of(OTHER) == PROOF_SAFE && bounds_of(THIRD) == PROOF_SAFE);
    env.named = true;
    CHECK(bounds_of(FIRST) == PROOF_STRICT);
    env.named = false;
    write_thread(THIRD, 'S', 20, "Seccomp:\t0\nx86_Thread_features:\tshstk \n");
    CHECK(bounds_of(THIRD) == PROOF_SHADOW_STACK && bounds_of(OTHER) == PROOF_SAFE);
}

/* At the stop the status of that moment counts. */
static void test_stopped(void)
{
    struct gate gate = {0};
    struct injection injection = {.env = env};

    injection.session = (struct session){.gate = &gate, .tid = OTHER, .state = SESSION_EVENT};
    write_thread(OTHER, 'S', 10, one);
    CHECK(bounds_of_stopped(&injection) == PROOF_FILTERED);
    CHECK(injection.own_known && injection.own.seccomp == STATUS_SECCOMP_FILTER);
    write_thread(OTHER, 'S', 10, strict);
    CHECK(bounds_of_stopped(&injection) == PROOF_STRICT);
    injection.session.tid = NO_PID;
    CHECK(bounds_of_stopped(&injection) == PROOF_NO_STATUS && !injection.own_known);
}

static void test_dispatch(void)
{
    struct proc_status status = {.sig_caught = SIGSYS_ALONE};

    CHECK(bounds_may_dispatch(&status, &env));
    status.seccomp = STATUS_SECCOMP_FILTER; /* which may be the thread that answers by SIGSYS */
    CHECK(!bounds_may_dispatch(&status, &env));
    status = (struct proc_status){.sig_caught = EVERY_SIGNAL};
    CHECK(!bounds_may_dispatch(&status, &env));
    status.sig_caught = ~SIGSYS_ALONE & 0xffffffff;
    CHECK(!bounds_may_dispatch(&status, &env));
}

static bool may_dispatch_in(const char *path)
{
    const struct proc_status status = {.sig_caught = SIGSYS_ALONE};
    char name[64];
    struct module program = {.path = name};
    struct modules modules = {.list = &program, .count = 1};
    struct injection_env own = {.modules = &modules};

    snprintf(name, sizeof name, "%s", path);
    return bounds_may_dispatch(&status, &own);
}

static void test_known_handlers(void)
{
    const struct proc_status status = {.sig_caught = SIGSYS_ALONE};

    CHECK(may_dispatch_in("/usr/bin/program") && may_dispatch_in("/usr/lib/wine/ntdll.so"));
    CHECK(may_dispatch_in("/usr/lib/ruby/program"));
    CHECK(!may_dispatch_in("/usr/lib/libruby-3.1.so.3.1.2") && !may_dispatch_in("/opt/bin/ruby"));
    CHECK(!may_dispatch_in("/usr/bin/clickhouse-server"));
    env.named = true;
    CHECK(!bounds_may_dispatch(&status, &env));
    env.named = false;
}

static void test_verdicts(void)
{
    CHECK(!bounds_hold(PROOF_SAFE) && !bounds_hold(PROOF_RSEQ) && !bounds_hold(PROOF_NO_STATUS));
    for (enum proof proof = PROOF_STRICT; proof <= PROOF_FILTERED; proof++)
        CHECK(bounds_hold(proof) && proof_text(proof) && !safepoint_wants_unwinder(proof));
    CHECK(*proof_text(PROOF_NO_STATUS));
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_filters();
    test_first();
    test_strict();
    test_stopped();
    test_dispatch();
    test_known_handlers();
    test_verdicts();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
