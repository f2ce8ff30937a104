/*
 * A process that checks itself while it is interrupted.
 *
 *   victim MODE REPORT [--time MS] [--threads N] [--sabotage WHAT] [--no-warmup] [--stale]
 *          [--filter kill|errno] [--not-dumpable] [--off FILE] [--occupy MS]
 *   victim --modes | --sabotages
 *
 * Round after round its main thread does what MODE says, with every register
 * holding a known value, and compares afterwards: registers, red zone, stack,
 * result and duration of the system call, errno, signal mask, alternate stack
 * and signal dispositions. When --off FILE exists, it removes it and sets
 * thread.prof.active to false. With --occupy another thread keeps the address space
 * locked, for about so many milliseconds at a time (occupy.h). Differences go to the file
 * REPORT (report.h). It ends when its parent does. Exit codes: 77 when the CPU lacks what is
 * asked for, 2 for wrong arguments.
 */
#include "filter.h"
#include "modes.h"
#include "occupy.h"
#include "sabotage.h"

#include <errno.h>
#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ERRNO_SENTINEL   4242
#define CANARY_SIZE      1024
#define SIGNALS          64
#define WARMUP_SITES     8
#define WARMUP_DEPTH     12
#define WARMUP_BLOCKS    800
#define WIPED_STACK      65536
#define HELPER_SLEEP_NS  1000000u
#define HELPER_LATE_NS   50000000u
#define EXIT_USAGE       2
#define EXIT_UNSUPPORTED 77

struct options {
    const char *mode;
    const char *report;
    const char *sabotage;
    const char *filter;
    const char *off;
    uint64_t time_ms;
    uint64_t occupy_ms;
    unsigned int threads;
    bool warmup;
    bool stale;
    bool not_dumpable;
};

/* The kernel's signal state of the thread and the process. */
struct signal_state {
    uint64_t mask;
    stack_t altstack;
    struct {
        uint64_t handler, flags, restorer, mask;
    } actions[SIGNALS];
};

void victim_fault(struct victim *victim, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(victim->report->text, sizeof(victim->report->text), format, args);
    va_end(args);
    victim->report->errors++;
}

/* Without errno, which is one of the checked values. */
static long raw_syscall(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    register uint64_t r10 __asm__("r10") = d;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

static void signal_state_read(struct signal_state *state)
{
    memset(state, 0, sizeof(*state));
    raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, (uintptr_t)&state->mask, 8);
    raw_syscall(SYS_sigaltstack, 0, (uintptr_t)&state->altstack, 0, 0);
    for (uint64_t i = 0; i < SIGNALS; i++)
        raw_syscall(SYS_rt_sigaction, i + 1, 0, (uintptr_t)&state->actions[i], 8);
}

static void signal_state_check(struct victim *victim, const struct signal_state *before)
{
    struct signal_state now;

    signal_state_read(&now);
    if (now.mask != before->mask)
        victim_fault(victim, "signal mask: %#lx, was %#lx", now.mask, before->mask);
    if (memcmp(&now.altstack, &before->altstack, sizeof(now.altstack)) != 0)
        victim_fault(victim, "the alternate signal stack changed");
    if (memcmp(now.actions, before->actions, sizeof(now.actions)) != 0)
        victim_fault(victim, "a signal disposition changed");
}

static void canary_check(struct victim *victim, volatile unsigned char *canary)
{
    for (size_t i = 0; i < CANARY_SIZE; i++) {
        if (canary[i] == (unsigned char)(i * 3 + 1))
            continue;
        victim_fault(victim, "stack: byte %zu above the frame changed", i);
        canary[i] = (unsigned char)(i * 3 + 1);
    }
}

/* One round below an area of the stack with known bytes. */
static __attribute__((noinline)) void guarded_round(struct victim *victim)
{
    volatile unsigned char canary[CANARY_SIZE];

    for (size_t i = 0; i < CANARY_SIZE; i++)
        canary[i] = (unsigned char)(i * 3 + 1);
    sabotage_set_canary(canary);
    victim->mode->round(victim);
    canary_check(victim, canary);
}

/* Called in the only thread that samples. */
static void switch_off_when(const char *file)
{
    bool active = false;

    if (file && unlink(file) == 0)
        mallctl("thread.prof.active", NULL, NULL, &active, sizeof(active));
}

static __attribute__((noinline)) void run(struct victim *victim, const char *off)
{
    struct signal_state before;

    signal_state_read(&before);
    sabotage_start();
    victim->report->state = REPORT_READY;
    for (;;) {
        errno = ERRNO_SENTINEL;
        guarded_round(victim);
        if (errno != ERRNO_SENTINEL)
            victim->report->errno_lost++;
        signal_state_check(victim, &before);
        switch_off_when(off);
        __atomic_add_fetch(&victim->report->iterations, 1, __ATOMIC_RELEASE);
    }
}

static void *kept[WARMUP_BLOCKS];

/* A site and a depth make one distinct stack. */
static __attribute__((noinline)) void *allocate_deep(int depth, size_t size)
{
    void *block = depth ? allocate_deep(depth - 1, size) : malloc(size);

    __asm__ volatile("" ::: "memory");
    return block;
}

#define SITE(n)                                                                                    \
    static __attribute__((noinline)) void *site_##n(int depth, size_t size)                        \
    {                                                                                              \
        void *block = allocate_deep(depth, size + n);                                              \
                                                                                                   \
        __asm__ volatile("" ::: "memory");                                                         \
        return block;                                                                              \
    }

SITE(0)
SITE(1)
SITE(2)
SITE(3)
SITE(4)
SITE(5)
SITE(6)
SITE(7)

static void allocate_samples(void)
{
    static void *(*const sites[WARMUP_SITES])(int, size_t) = {site_0, site_1, site_2, site_3,
                                                              site_4, site_5, site_6, site_7};

    for (int i = 0; i < WARMUP_BLOCKS; i++) {
        int site = i % WARMUP_SITES, depth = i / WARMUP_SITES % WARMUP_DEPTH;

        kept[i] = sites[site](depth, 4000 + (size_t)i * 8);
    }
}

static void set_active(bool active)
{
    mallctl("prof.active", NULL, NULL, &active, sizeof(active));
}

/*
 * Profiled allocations, and one dump that is discarded: jemalloc makes the mappings for its first
 * dump before a test compares them.
 */
static __attribute__((noinline)) void warm_up(const char *report)
{
    char path[4096];
    const char *name = path;

    snprintf(path, sizeof(path), "%s.warmup", report);
    set_active(true);
    allocate_samples();
    set_active(false);
    mallctl("prof.dump", NULL, NULL, (void *)&name, sizeof(name));
    unlink(path);
}

/*
 * Return addresses of finished calls stay on the stack, where later frames do not overwrite them.
 * Here they are wiped, so that the only words of the allocator on the stack are those of a call in
 * progress; --stale keeps them.
 */
static __attribute__((noinline)) void wipe_stack(void)
{
    volatile unsigned char area[WIPED_STACK];

    for (size_t i = 0; i < sizeof(area); i++)
        area[i] = 0;
}

static void *helper_main(void *data)
{
    struct victim *victim = data;
    struct timespec pause = {0, HELPER_SLEEP_NS};

    for (;;) {
        uint64_t started = clock_now_ns();

        nanosleep(&pause, NULL);
        uint64_t late = clock_now_ns() - started - HELPER_SLEEP_NS;
        __atomic_add_fetch(&victim->report->helper_rounds, 1, __ATOMIC_RELAXED);
        if (late > HELPER_LATE_NS)
            __atomic_add_fetch(&victim->report->helper_late, 1, __ATOMIC_RELAXED);
        report_max(&victim->report->helper_max_late_ns, late);
    }
    return NULL;
}

static bool start_threads(struct victim *victim, void *(*function)(void *data), unsigned int count)
{
    for (unsigned int i = 0; i < count; i++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, function, victim) != 0)
            return false;
        pthread_detach(thread);
    }
    return true;
}

/* An alternate stack, a handler and a blocked signal, which a wrong return would lose. */
static bool set_up_signals(void)
{
    static unsigned char area[65536];
    stack_t altstack = {.ss_sp = area, .ss_size = sizeof(area)};
    sigset_t blocked;

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    return sigaltstack(&altstack, NULL) == 0 && sigprocmask(SIG_BLOCK, &blocked, NULL) == 0 &&
           signal(SIGPIPE, SIG_IGN) != SIG_ERR;
}

static struct report *map_report(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    struct report *report = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(*report)) == 0)
        report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (report == MAP_FAILED)
        return NULL;
    memset(report, 0, sizeof(*report));
    report->magic = REPORT_MAGIC;
    report->pid = getpid();
    return report;
}

static bool parse_option(struct options *options, const char *name, const char *value)
{
    if (!strcmp(name, "--time"))
        options->time_ms = strtoul(value, NULL, 10);
    else if (!strcmp(name, "--threads"))
        options->threads = (unsigned int)strtoul(value, NULL, 10);
    else if (!strcmp(name, "--sabotage"))
        options->sabotage = value;
    else if (!strcmp(name, "--filter"))
        options->filter = value;
    else if (!strcmp(name, "--occupy"))
        options->occupy_ms = strtoul(value, NULL, 10);
    else if (!strcmp(name, "--off"))
        options->off = value;
    else
        return false;
    return options->time_ms > 0;
}

static bool parse_options(struct options *options, int argc, char **argv)
{
    if (argc < 3)
        return false;
    *options = (struct options){.mode = argv[1], .report = argv[2], .time_ms = 200, .warmup = true};
    for (int i = 3; i < argc; i++) {
        if (!strcmp(argv[i], "--no-warmup"))
            options->warmup = false;
        else if (!strcmp(argv[i], "--stale"))
            options->stale = true;
        else if (!strcmp(argv[i], "--not-dumpable"))
            options->not_dumpable = true;
        else if (i + 1 >= argc || !parse_option(options, argv[i], argv[i + 1]))
            return false;
        else
            i++;
    }
    return true;
}

static int fail(struct victim *victim, int code, const char *what)
{
    if (victim->report) {
        victim->report->state = REPORT_FAILED;
        snprintf(victim->report->text, sizeof(victim->report->text), "%s", what);
    }
    fprintf(stderr, "victim: %s\n", what);
    return code;
}

static __attribute__((noinline)) int prepare(struct victim *victim, const struct options *options)
{
    bool missing = false;

    victim->mode = mode_find(options->mode);
    victim->report = map_report(options->report);
    victim->asked_ns = options->time_ms * 1000000u;
    victim->schedule_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (!victim->mode || !victim->report)
        return fail(victim, EXIT_USAGE, "no such mode, or the report cannot be made");
    if (!probe_init(&victim->probe))
        return fail(victim, EXIT_UNSUPPORTED, "this CPU has no XSAVE");
    if (options->sabotage && !sabotage_install(options->sabotage, &missing))
        return fail(victim, missing ? EXIT_UNSUPPORTED : EXIT_USAGE, "no such register, or name");
    if (!set_up_signals() || (victim->mode->setup && !victim->mode->setup(victim)))
        return fail(victim, 1, strerror(errno));
    if (!start_threads(victim, helper_main, options->threads))
        return fail(victim, 1, "no thread");
    if (options->warmup)
        warm_up(options->report);
    if (options->not_dumpable && prctl(PR_SET_DUMPABLE, 0) != 0)
        return fail(victim, 1, "it stays dumpable");
    if (options->occupy_ms && !occupy_start(options->occupy_ms * 1000000u))
        return fail(victim, errno == ENOSYS ? EXIT_UNSUPPORTED : 1, "no thread that occupies it");
    if (options->filter && !filter_install(options->filter))
        return fail(victim, EXIT_UNSUPPORTED, "no seccomp filter");
    return 0;
}

static int print_names(const char *which)
{
    if (!strcmp(which, "--modes"))
        modes_print();
    else if (!strcmp(which, "--sabotages"))
        sabotages_print();
    else
        return EXIT_USAGE;
    return 0;
}

int main(int argc, char **argv)
{
    static struct victim victim;
    struct options options;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc == 2)
        return print_names(argv[1]);
    if (!parse_options(&options, argc, argv)) {
        fprintf(stderr, "usage: victim MODE REPORT [--time MS] [--threads N] [--sabotage WHAT] "
                        "[--no-warmup] [--stale] [--filter kill|errno] [--not-dumpable] "
                        "[--off FILE] [--occupy MS]\n");
        return EXIT_USAGE;
    }
    int code = prepare(&victim, &options);
    if (code != 0)
        return code;
    if (!options.stale)
        wipe_stack();
    run(&victim, options.off);
    return 0;
}
