/* Whether a process stops its threads by signals: this process is the target. */
#include "check.h"
#include "inject/faults.h"
#include "inject/plan.h"
#include "inject/stoppers.h"
#include "own.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#define BIT(signal) (1ull << ((signal)-1))

static struct own own;
static struct plan plan;
static struct injection_env env;
static volatile sig_atomic_t interrupted;
static struct deadline deadline = {.at = UINT64_MAX, .interrupted = &interrupted};
static uint64_t watched_at;
static atomic_bool in_handler, ended;
static pthread_t other;

static void wait_for_end(void)
{
    const struct timespec pause = {0, 20000000};

    while (!atomic_load(&ended))
        nanosleep(&pause, NULL);
}

static void stop_in_handler(int signo)
{
    (void)signo;
    atomic_store(&in_handler, true);
    wait_for_end();
}

static void *wait_for_stop(void *unused)
{
    wait_for_end();
    return unused;
}

static void *block_and_wait(void *unused)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    wait_for_end();
    return unused;
}

static bool start_other(void *(*function)(void *))
{
    atomic_store(&ended, false);
    return CHECK(pthread_create(&other, NULL, function, NULL) == 0);
}

static void end_other(void)
{
    atomic_store(&ended, true);
    pthread_join(other, NULL);
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

/* With a watch. */
static fault_code refuse(struct fault *fault)
{
    watched_at = 0;
    return stoppers_refuse(&env, &watched_at, fault);
}

static void test_in_handler(void)
{
    struct fault fault = {0};
    uint64_t before;

    if (!start_other(wait_for_stop))
        return;
    CHECK(refuse(NULL) == FAULT_NONE && watched_at);
    before = watched_at;
    CHECK(stoppers_refuse(&env, &watched_at, NULL) == FAULT_NONE && watched_at == before);
    pthread_kill(other, SIGUSR1);
    while (!atomic_load(&in_handler))
        continue;
    CHECK(refuse(&fault) == FAULT_STOPS_THREADS);
    CHECK(strncmp(fault.what, "thread ", 7) == 0);
    watched_at = clock_now(); /* one look is enough */
    CHECK(stoppers_refuse(&env, &watched_at, NULL) == FAULT_STOPS_THREADS);
    end_other();
    CHECK(refuse(NULL) == FAULT_NONE);
}

static void test_ended_early(void)
{
    struct fault fault = {0};

    interrupted = 1;
    CHECK(refuse(&fault) == FAULT_INTERRUPTED && !watched_at);
    interrupted = 0;
    deadline.at = 1;
    CHECK(refuse(&fault) == FAULT_NO_SAFE_POINT && !watched_at);
    deadline.at = UINT64_MAX;
}

/* One that leaves the signal to others is in no handler. */
static void test_blocked(void)
{
    if (!start_other(block_and_wait))
        return;
    CHECK(refuse(NULL) == FAULT_NONE);
    end_other();
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
        env = (struct injection_env){
            .target = &own.target, .memory = &own.memory, .plan = &plan, .deadline = &deadline};
        test_ended_early();
        test_blocked(); /* first: later threads reuse a stack with the remains of a handler's frame
                         */
        test_in_handler();
    }
    own_close(&own);
    return check_result();
}
