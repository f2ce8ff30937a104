/* Page faults of a child, sampled: how many, where, and of which threads. */
#include "check.h"
#include "perf/faults.h"
#include "perf/page_faults.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 2000, PAGE = 4096, THREADS = 4, ENOUGH = 1000, PERIOD = 53 };

/* What the child has done. */
struct account {
    atomic_ulong touched;
    atomic_uintptr_t area[THREADS]; /* of each thread */
    atomic_ulong stop;
};
static struct account *account;

/* Touches each page of an area once, then gives it back, with pauses. */
static void touch_area(unsigned char *area)
{
    for (size_t i = 0; i < PAGES; i++) {
        area[i * PAGE] = 1;
        atomic_fetch_add(&account->touched, 1);
        if (i % 100 == 0)
            usleep(1000);
    }
    madvise(area, (size_t)PAGES * PAGE, MADV_DONTNEED);
}

static unsigned char *new_area(void)
{
    unsigned char *area = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    madvise(area, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
    return area;
}

static void *toucher(void *number)
{
    unsigned char *area = new_area();

    atomic_store(&account->area[(uintptr_t)number], (uintptr_t)area);
    for (;;)
        touch_area(area);
    return NULL;
}

static void *short_toucher(void *nothing)
{
    unsigned char *area = new_area();

    touch_area(area);
    munmap(area, (size_t)PAGES * PAGE);
    return nothing;
}

static void start_touchers(void)
{
    pthread_t thread;

    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, toucher, (void *)i);
}

/* Each thread lives for some 20 ms, and another one starts. */
static void start_short_ones(void)
{
    for (;;) {
        pthread_t threads[THREADS];
        for (size_t i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, short_toucher, NULL);
        for (size_t i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
}

static pid_t start_child(void (*body)(void))
{
    pid_t pid;

    memset(account, 0, sizeof *account);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        body();
        for (;;)
            pause();
    }
    while (atomic_load(&account->touched) < 100)
        usleep(1000);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* What the tool has seen. */
struct seen {
    uint64_t samples, weight, in_areas, odd, early;
    uint64_t start_ns;
};

static void note_fault(void *ctx, const struct page_fault *fault)
{
    struct seen *seen = ctx;

    seen->samples++;
    seen->weight += fault->weight;
    seen->early += fault->time_ns < seen->start_ns || fault->time_ns > clock_now();
    seen->odd += !fault->state.mask || !fault->state.stack_len;
    for (size_t i = 0; i < THREADS; i++)
        if (fault->addr - atomic_load(&account->area[i]) < (uint64_t)PAGES * PAGE)
            seen->in_areas += fault->weight;
}

struct outcome {
    fault_code code;
    struct seen seen;
    struct page_fault_lack lack;
    double touched, around; /* pages, while it was open; and also while it was opened and closed */
};

/* Samples for half a second. */
static struct outcome sample_child(pid_t pid, uint64_t period)
{
    struct page_fault_request request = {.period = period};
    struct outcome out = {.seen = {.start_ns = clock_now()}};
    struct page_faults *faults = NULL;
    struct fault fault = {.code = FAULT_NONE};
    struct procfs proc;
    struct target target;

    CHECK(procfs_open(&proc, "/proc") == 0);
    CHECK(target_open(&target, &proc, pid, &fault) == FAULT_NONE);
    uint64_t first = atomic_load(&account->touched);
    out.code = page_faults_open(&faults, &target, &request, &fault);
    uint64_t before = atomic_load(&account->touched), end = clock_now() + 500000000;
    while (out.code == FAULT_NONE &&
           (clock_now() < end ||
            (pid != getpid() && atomic_load(&account->touched) <= before + ENOUGH)))
        out.code = page_faults_read(faults, 50, note_fault, &out.seen, &fault);
    out.touched = (double)(atomic_load(&account->touched) - before);
    if (out.code == FAULT_NONE)
        out.lack = page_faults_lack(faults);
    out.around = (double)(atomic_load(&account->touched) - first);
    if (out.code != FAULT_NONE)
        fprintf(stderr, "%x: %s: %s\n", (unsigned)out.code, fault.stage, fault.what);
    page_faults_close(faults);
    target_close(&target);
    procfs_close(&proc);
    return out;
}

/* The process touches pages also between two readings of their number. */
static bool is_near(const struct outcome *out, uint64_t value)
{
    bool near = (double)value >= out->touched * 0.85 && (double)value <= out->around * 1.15;

    if (!near)
        fprintf(stderr, "%.0f, not %.0f to %.0f\n", (double)value, out->touched, out->around);
    return near;
}

/* What samples that were lost stand for: on a busy machine a ring may be full. */
static uint64_t lost_weight(const struct outcome *out)
{
    return out->lack.lost * PERIOD;
}

static void check_steady(const struct outcome *out)
{
    CHECK(out->code == FAULT_NONE && out->touched > ENOUGH);
    CHECK(is_near(out, out->lack.counted));
    CHECK(is_near(out, out->seen.weight + lost_weight(out)));
    CHECK(is_near(out, out->seen.in_areas + lost_weight(out)));
    CHECK(out->seen.odd == 0 && out->seen.early == 0);
    CHECK(out->lack.threads == 0);
}

static void test_threads(void)
{
    pid_t pid = start_child(start_touchers);
    struct outcome out = sample_child(pid, PERIOD);

    check_steady(&out);
    CHECK(!out.lack.listed);
    out = sample_child(pid, 0); /* the first 100 ms have a long period */
    CHECK(out.code == FAULT_NONE && is_near(&out, out.lack.counted));
    CHECK((double)out.seen.weight > out.touched / 2 && out.seen.odd == 0);
    end_child(pid);
}

/* Threads that start and end all the time, also while the events are opened. */
static void test_short_threads(void)
{
    pid_t pid = start_child(start_short_ones);
    struct outcome out = sample_child(pid, PERIOD);

    CHECK(out.code == FAULT_NONE && !out.lack.listed);
    CHECK(is_near(&out, out.lack.counted));
    CHECK(is_near(&out, out.seen.weight + lost_weight(&out)));
    end_child(pid);
}

/* With few file descriptors each thread has one event, and new threads are looked for. */
static void test_few_files(void)
{
    pid_t pid = start_child(start_touchers), tool;
    int status = 1;

    if (sysconf(_SC_NPROCESSORS_ONLN) == 1)
        return;
    tool = fork();
    if (tool == 0) {
        struct rlimit limit = {64 + THREADS + 2, 64 + THREADS + 2};
        checks_failed = 0;
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        struct outcome out = sample_child(pid, PERIOD);
        check_steady(&out);
        CHECK(out.lack.listed);
        _exit(checks_failed != 0);
    }
    CHECK(waitpid(tool, &status, 0) == tool && status == 0);
    end_child(pid);
}

static void open_child(pid_t pid, struct page_faults **faults, struct procfs *proc,
                       struct target *target, struct fault *fault)
{
    struct page_fault_request request = {.period = PERIOD};

    CHECK(procfs_open(proc, "/proc") == 0);
    CHECK(target_open(target, proc, pid, fault) == FAULT_NONE);
    CHECK(page_faults_open(faults, target, &request, fault) == FAULT_NONE);
}

/* Samples of larger copies follow, and none of the faults before is forgotten. */
static void test_deepen(void)
{
    static const uint32_t sizes[] = {8192, 32768, 61440, 61440};
    pid_t pid = start_child(start_touchers);
    struct seen seen = {.samples = 0};
    struct page_faults *faults = NULL;
    struct procfs proc;
    struct target target;
    struct fault fault;
    uint64_t counted = 0;

    open_child(pid, &faults, &proc, &target, &fault);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t before = seen.samples;
        CHECK(page_faults_stack_bytes(faults) == sizes[i]);
        while (seen.samples < before + 10 &&
               CHECK(page_faults_read(faults, 50, note_fault, &seen, &fault) == FAULT_NONE))
            continue;
        CHECK(page_faults_lack(faults).counted > counted);
        counted = page_faults_lack(faults).counted;
        CHECK(page_faults_deepen(faults, &fault) == FAULT_NONE);
    }
    CHECK(counted >= seen.weight && seen.odd == 0);
    page_faults_close(faults);
    target_close(&target);
    procfs_close(&proc);
    end_child(pid);
}

/* What follows the end of the process is its end, and no crash. */
static void test_end(void)
{
    pid_t pid = start_child(start_touchers);
    struct seen seen = {.samples = 0};
    struct page_faults *faults = NULL;
    struct procfs proc;
    struct target target;
    struct fault fault;

    open_child(pid, &faults, &proc, &target, &fault);
    for (uint64_t first = atomic_load(&account->touched);
         atomic_load(&account->touched) <= first + ENOUGH;)
        usleep(1000);
    end_child(pid);
    CHECK(fault_is_gone(page_faults_read(faults, 50, note_fault, &seen, &fault)));
    CHECK(seen.samples > 0); /* those from before */
    page_faults_close(faults);
    target_close(&target);
    procfs_close(&proc);
}

int main(void)
{
    struct outcome own;

    account =
        mmap(NULL, sizeof *account, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    own = sample_child(getpid(), 1000);
    if (own.code != FAULT_NONE) {
        printf("SKIP: perf events are refused here\n");
        return 77;
    }
    test_threads();
    test_short_threads();
    test_few_files();
    test_deepen();
    test_end();
    return check_result();
}
