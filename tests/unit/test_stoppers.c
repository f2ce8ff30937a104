/* Whether a thread may have stopped others by signals: this process is the target. */
#include "check.h"
#include "inject/plan.h"
#include "inject/stoppers.h"
#include "own.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#define BIT(signal) (1ull << ((signal)-1))
enum { WAIT_NS = 20000000 };

enum doing { DOING_SLEEP, DOING_SPIN, DOING_END };

static struct own own;
static struct plan plan;
static struct stops stops;
static struct injection injection;
static _Atomic enum doing doing;
static atomic_bool in_handler;
static pthread_t other;

static void sleep_shortly(void)
{
    const struct timespec pause = {0, WAIT_NS};

    nanosleep(&pause, NULL);
}

static void do_it(void)
{
    while (atomic_load(&doing) == DOING_SPIN)
        continue;
    while (atomic_load(&doing) == DOING_SLEEP)
        sleep_shortly();
}

static void stop_in_handler(int signo)
{
    (void)signo;
    atomic_store(&in_handler, true);
    do_it();
    atomic_store(&in_handler, false);
}

static void *wait_for_stop(void *unused)
{
    while (atomic_load(&doing) != DOING_END)
        sleep_shortly();
    return unused;
}

static void *block_and_do(void *unused)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    do_it();
    return unused;
}

static bool start_other(void *(*function)(void *), enum doing what)
{
    atomic_store(&doing, what);
    return CHECK(pthread_create(&other, NULL, function, NULL) == 0);
}

static void end_other(void)
{
    atomic_store(&doing, DOING_END);
    pthread_join(other, NULL);
}

/* False: it never became so. */
static bool becomes(bool stopped)
{
    for (int i = 0; i < 1000; i++) {
        if (stoppers_before(&injection, getpid()) == stopped)
            return true;
        sleep_shortly();
    }
    return false;
}

/* Not those that every program handles, nor those of a program that handles them all. */
static void test_signals_of_threads(void)
{
    const uint64_t usual = BIT(SIGINT) | BIT(SIGTERM) | BIT(SIGSEGV) | BIT(SIGCHLD) | BIT(SIGALRM) |
                           BIT(SIGPIPE) | BIT(32) | BIT(33);

    CHECK(stoppers_signals(0) == 0 && stoppers_signals(usual) == 0);
    CHECK(stoppers_signals(usual | BIT(SIGUSR1)) == BIT(SIGUSR1));
    CHECK(stoppers_signals(BIT(SIGPWR) | BIT(SIGXCPU)) == (BIT(SIGPWR) | BIT(SIGXCPU)));
    CHECK(stoppers_signals(BIT(40)) == BIT(40));
    CHECK(stoppers_signals(~0ull) == 0 && stoppers_signals(~BIT(SIGUSR2)) == 0);
}

/* A thread that is awake in its handler counts, too: it may have had no CPU yet to fall asleep. */
static void test_in_handler(enum doing what)
{
    memset(&stops, 0, sizeof stops);
    if (!start_other(wait_for_stop, DOING_SLEEP))
        return;
    CHECK(becomes(false));
    atomic_store(&doing, what);
    pthread_kill(other, SIGUSR1);
    while (!atomic_load(&in_handler))
        continue;
    CHECK(what == DOING_SPIN ? stoppers_before(&injection, getpid()) : becomes(true));
    CHECK(stoppers_held(&injection));
    injection.looks = true; /* no call is made */
    CHECK(!stoppers_before(&injection, getpid()) && !stoppers_held(&injection));
    injection.looks = false;
    end_other();
}

/* One that works with the signal blocked is in no handler; that shows only after a while. */
static void test_blocked(enum doing what)
{
    memset(&stops, 0, sizeof stops);
    if (!start_other(block_and_do, what))
        return;
    if (what == DOING_SPIN)
        CHECK(becomes(true));
    CHECK(becomes(false));
    end_other();
}

/* The thread is where it slept when nobody was stopped: it has stopped nobody. */
static void test_has_slept_since(void)
{
    struct stop_record *record = stops_of(&stops, getpid());
    const struct stop_record asleep = {
        .tid = getpid(), .at = {.asleep = true}, .switches = 7, .other_switches = 3};

    memset(&stops, 0, sizeof stops);
    if (!start_other(wait_for_stop, DOING_SLEEP))
        return;
    pthread_kill(other, SIGUSR1);
    CHECK(becomes(true));
    injection.own_known = true;
    injection.own = (struct proc_status){.voluntary_switches = 8, .other_switches = 3};
    *record = asleep;
    CHECK(!stoppers_held(&injection));
    injection.own.voluntary_switches = 9; /* slept in another place, and here again */
    CHECK(stoppers_held(&injection));
    injection.own.voluntary_switches = 8;
    injection.own.other_switches = 4; /* lost its CPU on its way */
    CHECK(stoppers_held(&injection));
    injection.own.other_switches = 3;
    record->at.pc = 16; /* in another system call */
    CHECK(stoppers_held(&injection));
    *record = asleep;
    record->at.sp = 16;
    CHECK(stoppers_held(&injection));
    *record = asleep;
    record->at.asleep = false; /* it was running */
    CHECK(stoppers_held(&injection));
    end_other();
}

/* What is known of another thread is not lost for a thread that only happens to be looked at. */
static void test_records_stay(void)
{
    const pid_t same_place = getpid() + STOPS_THREADS;

    memset(&stops, 0, sizeof stops);
    stops_of(&stops, same_place)->stops = 5;
    CHECK(!stoppers_before(&injection, getpid()));
    CHECK(stops_find(&stops, same_place) && stops_find(&stops, same_place)->stops == 5);
}

static void note_own_restorer(void)
{
    struct sigaction action = {.sa_handler = stop_in_handler};
    struct {
        uint64_t handler, flags, restorer, mask;
    } kernel = {0};

    sigaction(SIGUSR1, &action, NULL);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &kernel, sizeof kernel.mask) == 0);
    plan.gadgets.sigreturn = kernel.restorer;
}

int main(void)
{
    test_signals_of_threads();
    if (CHECK(own_open(&own))) {
        note_own_restorer();
        injection.env = (struct injection_env){
            .target = &own.target, .memory = &own.memory, .plan = &plan, .stops = &stops};
        injection.stops = &stops;
        injection.session.tid = getpid();
        injection.stoppers = BIT(SIGUSR1);
        /* First: later threads reuse a stack with the remains of a handler's frame. */
        test_blocked(DOING_SLEEP);
        test_blocked(DOING_SPIN);
        test_in_handler(DOING_SLEEP);
        test_in_handler(DOING_SPIN);
        test_has_slept_since();
        test_records_stay();
    }
    own_close(&own);
    return check_result();
}
