/*
 * A coroutine whose stack is an array on the stack of its thread:
 * coroutine MODE REPORT [--time MS].
 *
 * MODE is the number of bytes that the coroutine leaves free in the array, in addition to what a
 * signal of the kernel needs there. Below the array are bytes of the function that has called it:
 * they are in use, and the coroutine checks them after each sleep. At the start it takes a signal,
 * which shows that a handler's frame fits.
 */
#include "report.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum {
    BELOW = 32 << 10,
    ARRAY = 64 << 10,
    HANDLER = 192,
    RED_ZONE = 128,
    SAVED = 144, /* what sleep_deep and clock_nanosleep save below the frame address */
};

/* On the stack of main: what it uses itself, and above that the stack of the coroutine. */
struct host {
    uint64_t below[BELOW / 8];
    unsigned char array[ARRAY];
};

static struct report *report;
static struct host *host;
static ucontext_t main_context, coroutine_context;
static size_t spare;
static uint64_t sleep_ns = 100000000;

static uint64_t word_of(size_t i)
{
    return 0x9e3779b97f4a7c15u * (i + 1);
}

static void fill_below(void)
{
    for (size_t i = 0; i < BELOW / 8; i++)
        host->below[i] = word_of(i);
}

static bool check_below(void)
{
    for (size_t i = BELOW / 8; i-- > 0;)
        if (host->below[i] != word_of(i)) {
            snprintf(report->text, sizeof report->text, "changed %zu bytes below the array",
                     BELOW - i * 8);
            return false;
        }
    return true;
}

static void on_signal(int signo)
{
    (void)signo;
}

static void fault(void)
{
    __atomic_add_fetch(&report->errors, 1, __ATOMIC_SEQ_CST);
    fill_below();
}

/* Sleeps with as little of the array free as was asked for. */
static __attribute__((noinline)) void sleep_deep(void)
{
    unsigned char *here = __builtin_frame_address(0);
    size_t needed = SAVED + RED_ZONE + getauxval(AT_MINSIGSTKSZ) + HANDLER + spare;
    size_t size = (size_t)(here - host->array) - needed;
    volatile unsigned char *used = alloca(size);
    struct timespec pause = {(time_t)(sleep_ns / 1000000000u), (long)(sleep_ns % 1000000000u)};

    used[0] = 1;
    if (!report->iterations)
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
    if (!check_below())
        _exit(3); /* the signal did not fit: the scene is wrong */
    if (clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL) == EINTR)
        __atomic_add_fetch(&report->eintr, 1, __ATOMIC_SEQ_CST);
    used[size - 1] = 1;
}

static void coroutine(void)
{
    for (;;) {
        sleep_deep();
        if (!check_below())
            fault();
        __atomic_add_fetch(&report->iterations, 1, __ATOMIC_SEQ_CST);
        report->state = REPORT_READY;
        swapcontext(&coroutine_context, &main_context);
    }
}

static __attribute__((noinline)) void run(void)
{
    struct host on_stack;

    host = &on_stack;
    memset(&on_stack, 0, sizeof on_stack);
    fill_below();
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = host->array;
    coroutine_context.uc_stack.ss_size = ARRAY;
    makecontext(&coroutine_context, coroutine, 0);
    for (;;)
        swapcontext(&main_context, &coroutine_context);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 3 || (fd = open(argv[2], O_RDWR)) < 0)
        return 2;
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (report == MAP_FAILED || !getauxval(AT_MINSIGSTKSZ))
        return report == MAP_FAILED ? 2 : 77;
    spare = strtoul(argv[1], NULL, 10);
    if (argc > 4)
        sleep_ns = strtoul(argv[4], NULL, 10) * 1000000;
    sigaction(SIGUSR1, &action, NULL);
    mallctl("epoch", NULL, NULL, NULL, 0);
    report->magic = REPORT_MAGIC;
    report->pid = getpid();
    run();
    return 0;
}
