/* /proc/PID/status. */
#include "check.h"
#include "host/task.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool parse_text(const char *text, struct proc_status *out)
{
    size_t len = strlen(text);
    char *copy = malloc(len ? len : 1); /* no NUL behind it */
    bool good = copy && parse_status(memcpy(copy, text, len), len, out);

    free(copy);
    return good;
}

static const char whole[] = "Name:\tredis-server\n"
                            "Umask:\t0022\n"
                            "State:\tS (sleeping)\n"
                            "Tgid:\t4242\n"
                            "Ngid:\t0\n"
                            "Pid:\t4242\n"
                            "PPid:\t1\n"
                            "TracerPid:\t999\n"
                            "Uid:\t1000\t1001\t1002\t1003\n"
                            "Gid:\t2000\t2001\t2002\t2003\n"
                            "NStgid:\t4242\t17\t1\n"
                            "NSpid:\t4242\t17\t5\n"
                            "NSpgid:\t4242\t17\t1\n"
                            "VmPeak:\t 70000 kB\n"
                            "VmRSS:\t    8192 kB\n"
                            "CoreDumping:\t1\n"
                            "SigQ:\t0/95000\n"
                            "SigPnd:\t0000000000000001\n"
                            "ShdPnd:\t0000000000004002\n"
                            "SigBlk:\tfffffffe7ffbfeff\n"
                            "SigIgn:\t0000000000001000\n"
                            "SigCgt:\t0000000020800200\n"
                            "CapInh:\t0000000000000001\n"
                            "CapPrm:\t000001ffffffffff\n"
                            "CapEff:\t0000000000000002\n"
                            "CapBnd:\t00000000000003ff\n"
                            "NoNewPrivs:\t1\n"
                            "Seccomp:\t2\n"
                            "Seccomp_filters:\t7\n"
                            "x86_Thread_features:\tshstk wrss \n"
                            "x86_Thread_features_locked:\t\n";

static void check_whole(const struct proc_status *status)
{
    CHECK(status->tracer == 999);
    CHECK(status->ns_pid == 5 && status->tgid == 4242);
    CHECK(status->uid == 1000 && status->euid == 1001 && status->suid == 1002);
    CHECK(status->gid == 2000 && status->egid == 2001 && status->sgid == 2002);
    CHECK(status->cap_effective == 2 && status->cap_bounding == 0x3ffull);
    CHECK(status->sig_caught == 0x20800200ull);
    CHECK(status->seccomp == STATUS_SECCOMP_FILTER && status->seccomp_filters == 7);
    CHECK(status->shadow_stack);
    CHECK(status->sig_pending == 1);
    CHECK(status->sig_shared_pending == 0x4002);
    CHECK(status->sig_blocked == 0xfffffffe7ffbfeffull);
    CHECK(status->cap_permitted == 0x1ffffffffffull);
    CHECK(status->rss_bytes == 8192u * 1024);
}

static void test_whole(void)
{
    struct proc_status status;

    CHECK(parse_text(whole, &status));
    check_whole(&status);
    CHECK(parse_status(whole, sizeof whole - 2, &status)); /* without the last newline */
    check_whole(&status);
}

static void test_missing(void)
{
    static const struct proc_status none;
    struct proc_status status;

    memset(&status, 0xff, sizeof status);
    CHECK(parse_text("Name:\ta\n", &status));
    CHECK(memcmp(&status, &none, sizeof status) == 0);
    CHECK(parse_text("Name:\ta", &status));
    CHECK(!parse_text("", &status));
    CHECK(!parse_text("\n\n", &status));
    CHECK(!parse_text("TracerPid:\t1\n", &status));
    CHECK(!parse_text("XName:\ta\n", &status));
}

/* The last field of NSpid, and nothing of the next line. */
static void test_ns_pid(void)
{
    struct proc_status status;

    CHECK(parse_text("Name:\ta\nNSpid:\t7\nNSpgid:\t99\n", &status) && status.ns_pid == 7);
    CHECK(parse_text("Name:\ta\nNSpid:\t7\t1\n", &status) && status.ns_pid == 1);
    CHECK(parse_text("Name:\ta\nNSpid:\t7 8\t9", &status) && status.ns_pid == 9);
    CHECK(parse_text("Name:\ta\nNSpid:\t\n12\n", &status) && status.ns_pid == 0);
}

static void test_ns_pids(void)
{
    struct proc_status status;
    char text[1024] = "Name:\ta\nNSpid:";

    CHECK(parse_text(whole, &status) && status.ns_pid_count == 3);
    CHECK(status.ns_pids[0] == 4242 && status.ns_pids[1] == 17 && status.ns_pids[2] == 5);
    CHECK(parse_text("Name:\ta\nNSpid:\t7", &status) && status.ns_pid_count == 1);
    CHECK(status.ns_pids[0] == 7);
    CHECK(parse_text("Name:\ta\nNSpgid:\t7\n NSpid:\t8\n", &status) && status.ns_pid_count == 0);
    for (int i = 0; i < 40; i++)
        strcat(text, "\t123");
    CHECK(parse_text(text, &status) && status.ns_pid_count == NS_PIDS_MAX);
}

/* Before Linux 5.9 filters are not counted. */
static void test_filters(void)
{
    struct proc_status status;

    CHECK(parse_text("Name:\ta\nSeccomp:\t2\n", &status) && status.seccomp_filters == 1);
    CHECK(parse_text("Name:\ta\nSeccomp:\t1\n", &status) && status.seccomp_filters == 0);
}

/* A key is a whole key, at the start of its line. */
static void test_keys(void)
{
    struct proc_status status;

    CHECK(parse_text("Name:\tTracerPid:\t5\n", &status) && status.tracer == 0);
    CHECK(parse_text("Name:\ta\n TracerPid:\t5\n", &status) && status.tracer == 0);
    CHECK(parse_text("Name:\ta\nTracerPid\t5\n", &status) && status.tracer == 0);
    CHECK(parse_text("Name:\ta\nSeccomp_filters:\t3\n", &status) && status.seccomp == 0);
    CHECK(parse_text("Name:\ta\nx86_Thread_features_locked:\tshstk\n", &status));
    CHECK(!status.shadow_stack);
    CHECK(parse_text("Name:\ta\nx86_Thread_features:\twrss\nFoo:\tshstk\n", &status));
    CHECK(!status.shadow_stack);
    CHECK(parse_text("Name:\ta\nx86_Thread_features:\tshstk", &status) && status.shadow_stack);
}

static void test_numbers(void)
{
    struct proc_status status;

    CHECK(parse_text("Name:\ta\nTracerPid:\t99999999999999999999999\n", &status));
    CHECK(status.tracer == 0);
    CHECK(parse_text("Name:\ta\nSigBlk:\tfffffffffffffffff\n", &status));
    CHECK(status.sig_blocked == 0);
    CHECK(parse_text("Name:\ta\nSigBlk:\tffffffffffffffff\n", &status));
    CHECK(status.sig_blocked == UINT64_MAX);
    CHECK(parse_text("Name:\ta\nVmRSS:\tx kB\nUid:\t5\n", &status));
    CHECK(status.rss_bytes == 0 && status.uid == 5 && status.euid == 0);
}

/* Any prefix of the text: nothing beyond it is read. */
static void test_truncated(void)
{
    for (size_t n = 0; n < sizeof whole; n++) {
        struct proc_status status;
        char *copy = malloc(n ? n : 1);
        if (!CHECK(copy != NULL))
            return;
        CHECK(parse_status(memcpy(copy, whole, n), n, &status) == (n >= 5));
        free(copy);
    }
}

static void test_own(void)
{
    struct proc_status status;
    char text[8192];
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_SETMASK, &set, NULL);
    raise(SIGUSR1);
    FILE *file = fopen("/proc/self/status", "re");
    if (!CHECK(file != NULL))
        return;
    size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    CHECK(parse_status(text, n, &status));
    CHECK(status.sig_blocked == 1ull << (SIGUSR1 - 1));
    CHECK((status.sig_pending | status.sig_shared_pending) == 1ull << (SIGUSR1 - 1));
    CHECK(status.uid == getuid() && status.euid == geteuid());
    CHECK(status.ns_pid == getpid() && status.rss_bytes > 4096);
}

int main(void)
{
    test_whole();
    test_missing();
    test_ns_pid();
    test_ns_pids();
    test_filters();
    test_keys();
    test_numbers();
    test_truncated();
    test_own();
    return check_result();
}
