/* The modes: a table of system calls that block, the empty loop, and the allocator loop. */
#include "modes.h"

#include "sabotage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* Known to tests/lib.py. */
#define LATE_SLACK_NS  500000000u
#define TICKS_SLACK_NS 8000000u
#define SIGSET_BYTES   8
/* A million turns, one a cycle at 10 GHz. */
#define FASTEST_SPIN_NS 100000u
#define MALLOC_BLOCKS   512
#define MALLOC_TURNS    20000
#define ARG(pointer)    ((uint64_t)(uintptr_t)(pointer))
#define NS_PER_SECOND   1000000000u
#define NS_PER_MS       1000000u
#define CALL(nr, ...)   ((struct call){nr, {__VA_ARGS__}})

uint64_t clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* "CPU-TIME WAITED SLICES", in ns (Documentation/scheduler/sched-stats.rst). */
uint64_t waited_for_cpu_ns(const struct victim *victim)
{
    char text[96] = "", *waited;

    if (victim->schedule_fd < 0 || pread(victim->schedule_fd, text, sizeof(text) - 1, 0) <= 0)
        return 0;
    strtoull(text, &waited, 10);
    return strtoull(waited, NULL, 10);
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / NS_PER_SECOND), (long)(ns % NS_PER_SECOND)};
}

static uint64_t sigset_of(int number)
{
    return 1ull << (number - 1);
}

/* The arguments are here: the kernel writes the remaining time into some of them. */
static struct timespec timeout;
static struct timeval timeout_us;
static struct pollfd poll_entry;
static fd_set read_set;
static struct epoll_event epoll_entry;
static uint64_t signal_set;
static uint32_t futex_word;
static char received[64];

static bool setup_silent_socket(struct victim *victim)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    victim->fd = ends[0];
    return true;
}

static bool setup_recv(struct victim *victim)
{
    struct timeval limit = {(time_t)(victim->asked_ns / NS_PER_SECOND),
                            (suseconds_t)(victim->asked_ns % NS_PER_SECOND / 1000)};

    return setup_silent_socket(victim) &&
           setsockopt(victim->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0;
}

static bool setup_epoll(struct victim *victim)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (!setup_silent_socket(victim))
        return false;
    event.data.fd = victim->fd;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, victim->fd, &event) < 0)
        return false;
    victim->fd = epoll;
    return true;
}

static bool setup_timerfd(struct victim *victim)
{
    victim->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    return victim->fd >= 0;
}

static void arm_nanosleep(struct victim *victim, struct call *call)
{
    timeout = timespec_of(victim->asked_ns);
    *call = CALL(SYS_nanosleep, ARG(&timeout), 0);
}

static void arm_clock_nanosleep_abs(struct victim *victim, struct call *call)
{
    timeout = timespec_of(clock_now_ns() + victim->asked_ns);
    *call = CALL(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, ARG(&timeout), 0);
}

static void arm_epoll_wait(struct victim *victim, struct call *call)
{
    *call = CALL(SYS_epoll_wait, (uint64_t)victim->fd, ARG(&epoll_entry), 1,
                 victim->asked_ns / NS_PER_MS);
}

/* SIGUSR1 is blocked outside the calls with a temporary mask, SIGUSR2 inside them. */
static void arm_epoll_pwait(struct victim *victim, struct call *call)
{
    signal_set = sigset_of(SIGUSR2);
    *call = CALL(SYS_epoll_pwait, (uint64_t)victim->fd, ARG(&epoll_entry), 1,
                 victim->asked_ns / NS_PER_MS, ARG(&signal_set), SIGSET_BYTES);
}

static void arm_poll(struct victim *victim, struct call *call)
{
    poll_entry = (struct pollfd){victim->fd, POLLIN, 0};
    *call = CALL(SYS_poll, ARG(&poll_entry), 1, victim->asked_ns / NS_PER_MS);
}

static void arm_ppoll(struct victim *victim, struct call *call)
{
    poll_entry = (struct pollfd){victim->fd, POLLIN, 0};
    timeout = timespec_of(victim->asked_ns);
    signal_set = sigset_of(SIGUSR2);
    *call = CALL(SYS_ppoll, ARG(&poll_entry), 1, ARG(&timeout), ARG(&signal_set), SIGSET_BYTES);
}

static void arm_select(struct victim *victim, struct call *call)
{
    FD_ZERO(&read_set);
    FD_SET(victim->fd, &read_set);
    timeout_us.tv_sec = (time_t)(victim->asked_ns / NS_PER_SECOND);
    timeout_us.tv_usec = (suseconds_t)(victim->asked_ns % NS_PER_SECOND / 1000);
    *call = CALL(SYS_select, (uint64_t)victim->fd + 1, ARG(&read_set), 0, 0, ARG(&timeout_us));
}

static void arm_futex(struct victim *victim, struct call *call)
{
    timeout = timespec_of(victim->asked_ns);
    *call = CALL(SYS_futex, ARG(&futex_word), FUTEX_WAIT_PRIVATE, 0, ARG(&timeout));
}

static void arm_read(struct victim *victim, struct call *call)
{
    struct itimerspec timer = {.it_value = timespec_of(victim->asked_ns)};

    timerfd_settime(victim->fd, 0, &timer, NULL);
    *call = CALL(SYS_read, (uint64_t)victim->fd, ARG(received), sizeof(uint64_t));
}

static void arm_recv(struct victim *victim, struct call *call)
{
    *call = CALL(SYS_recvfrom, (uint64_t)victim->fd, ARG(received), sizeof(received));
}

static void arm_sigtimedwait(struct victim *victim, struct call *call)
{
    timeout = timespec_of(victim->asked_ns);
    signal_set = sigset_of(SIGUSR1);
    *call = CALL(SYS_rt_sigtimedwait, ARG(&signal_set), 0, ARG(&timeout), SIGSET_BYTES);
}

static void arm_getppid(struct victim *victim, struct call *call)
{
    (void)victim;
    *call = CALL(SYS_getppid);
}

void report_max(uint64_t *slot, uint64_t value)
{
    uint64_t seen = __atomic_load_n(slot, __ATOMIC_RELAXED);

    while (seen < value && !__atomic_compare_exchange_n(slot, &seen, value, true, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED))
        ;
}

struct moment {
    uint64_t at, waited;
};

/*
 * SO_RCVTIMEO counts ticks (net/core/sock.c, sock_set_timeout), which lag behind the clock for some
 * milliseconds when a virtual machine's CPU has been taken away. The others have timers of their
 * own.
 */
static uint64_t early_slack_ns(const struct mode *mode)
{
    return mode->arm == arm_recv ? TICKS_SLACK_NS : 0;
}

/* Late without an explanation: time that the thread waited for a CPU is excused. */
static void check_time(struct victim *victim, const struct moment *started)
{
    uint64_t took = clock_now_ns() - started->at;

    if (took + early_slack_ns(victim->mode) < victim->asked_ns) {
        victim->report->early++;
        return;
    }
    uint64_t waited = waited_for_cpu_ns(victim) - started->waited;
    took -= waited < took ? waited : took;
    if (took > victim->asked_ns)
        report_max(&victim->report->max_late_ns, took - victim->asked_ns);
    if (took > 2 * victim->asked_ns + LATE_SLACK_NS)
        victim->report->late++;
}

static void check_result(struct victim *victim, const struct moment *started)
{
    int64_t result = (int64_t)victim->probe.out[PROBE_RAX];

    if (result == -EINTR) {
        victim->report->eintr++;
        return;
    }
    if (victim->mode->untimed)
        return;
    if (result != victim->mode->expected)
        victim_fault(victim, "%s returned %ld", victim->mode->name, result);
    check_time(victim, started);
}

static void check_probe(struct victim *victim, bool spin)
{
    char text[sizeof(victim->report->text)];

    if (!probe_check(&victim->probe, spin, text, sizeof(text)))
        victim_fault(victim, "%s", text);
}

static void round_call(struct victim *victim)
{
    static const enum probe_reg order[] = {PROBE_RDI, PROBE_RSI, PROBE_RDX,
                                           PROBE_R10, PROBE_R8,  PROBE_R9};
    struct moment started = {clock_now_ns(), waited_for_cpu_ns(victim)};
    struct call call;

    victim->mode->arm(victim, &call);
    probe_fill(&victim->probe, victim->report->iterations);
    victim->probe.in[PROBE_RAX] = (uint64_t)call.number;
    for (int i = 0; i < 6; i++)
        victim->probe.in[order[i]] = call.args[i];
    probe_syscall(&victim->probe);
    check_result(victim, &started);
    check_probe(victim, false);
}

/*
 * By CPU time: including a wait for a CPU the loop would be too short to be hit. Time that a
 * virtual machine's host took away is not counted, so the measured time may be too short.
 */
static uint64_t cpu_time_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t spin_once(struct victim *victim, uint64_t turns)
{
    uint64_t started = cpu_time_ns();

    victim->probe.in[PROBE_RCX] = turns;
    probe_spin(&victim->probe);
    return cpu_time_ns() - started;
}

/* The fastest of several: the others may have been delayed. */
static void calibrate_spin(struct victim *victim)
{
    const uint64_t turns = 125000, tries = 8;
    uint64_t least = UINT64_MAX;

    sabotage_put_off(true);
    for (uint64_t i = 0; i < tries; i++) {
        uint64_t took = spin_once(victim, turns);
        least = took < least ? took : least;
    }
    sabotage_put_off(false);
    if (least < FASTEST_SPIN_NS / tries)
        least = FASTEST_SPIN_NS / tries;
    victim->spin_turns = turns * NS_PER_MS / least + 1;
}

static void round_spin(struct victim *victim)
{
    probe_fill(&victim->probe, victim->report->iterations);
    if (!victim->spin_turns)
        calibrate_spin(victim);
    /* A signal that is to do damage must hit the loop, however slow everything else is. */
    if (sabotage_waits() && victim->report->iterations % 256 == 255)
        victim->spin_turns *= 2;
    victim->probe.in[PROBE_RCX] = victim->spin_turns;
    probe_spin(&victim->probe);
    check_probe(victim, true);
}

/* Each block contains its own size, so that a corrupt heap shows. */
static void malloc_turn(struct victim *victim, size_t **block, size_t size)
{
    if (*block && **block > 70000)
        victim_fault(victim, "a block of the heap was overwritten");
    free(*block);
    *block = malloc(size);
    if (*block)
        **block = size;
}

static void round_malloc(struct victim *victim)
{
    static size_t *blocks[MALLOC_BLOCKS];
    static uint64_t seed = 1;

    for (int i = 0; i < MALLOC_TURNS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t size = 16 + (size_t)(seed >> 40) % ((seed >> 33) % 64 ? 2000 : 60000);
        malloc_turn(victim, &blocks[(seed >> 50) % MALLOC_BLOCKS], size);
    }
}

static const struct mode modes[] = {
    {"spin", NULL, NULL, round_spin, 0, false},
    {"nanosleep", NULL, arm_nanosleep, round_call, 0, false},
    {"clock_nanosleep_abs", NULL, arm_clock_nanosleep_abs, round_call, 0, false},
    {"epoll_wait", setup_epoll, arm_epoll_wait, round_call, 0, false},
    {"epoll_pwait", setup_epoll, arm_epoll_pwait, round_call, 0, false},
    {"poll", setup_silent_socket, arm_poll, round_call, 0, false},
    {"ppoll", setup_silent_socket, arm_ppoll, round_call, 0, false},
    {"select", setup_silent_socket, arm_select, round_call, 0, false},
    {"futex", NULL, arm_futex, round_call, -ETIMEDOUT, false},
    {"read", setup_timerfd, arm_read, round_call, sizeof(uint64_t), false},
    {"recv", setup_recv, arm_recv, round_call, -EAGAIN, false},
    {"sigtimedwait", NULL, arm_sigtimedwait, round_call, -EAGAIN, false},
    {"getppid", NULL, arm_getppid, round_call, 0, true},
    {"malloc", NULL, NULL, round_malloc, 0, false},
};

#define MODES (sizeof(modes) / sizeof(modes[0]))

const struct mode *mode_find(const char *name)
{
    for (size_t i = 0; i < MODES; i++) {
        if (!strcmp(modes[i].name, name))
            return &modes[i];
    }
    return NULL;
}

void modes_print(void)
{
    for (size_t i = 0; i < MODES; i++)
        puts(modes[i].name);
}
