/*
 * blocking NAME...: a process that makes one blocking call after another.
 *
 * For each line `NAME MS` on stdin a new thread makes that call once. `tid N` is printed before it,
 * and `done RESULT ERRNO MICROSECONDS FAULT WAITED` behind it; FAULT is `-` or what else is wrong,
 * WAITED the microseconds for which those who take part in the call were ready without a CPU.
 * `blocking` alone prints the names with their flags. `skip` answers a call that cannot be made.
 */
#include "blocking.h"
#include "safety.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ERRNO_SENTINEL 4242

static const struct call *const tables[] = {blocking_timed, blocking_io, blocking_ipc,
                                            blocking_signals};

struct outcome {
    const struct call *call;
    struct context context;
    long result;
    int error;
    int64_t microseconds;
    const char *fault;
};

volatile int blocking_handled;
static int64_t *waited_ns; /* shared with the child */

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* In ns: the second word of three (Documentation/scheduler/sched-stats.rst). */
static int64_t my_wait_ns(void)
{
    char text[96] = "", *second;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0; /* not counted by this kernel */
    strtoull(text, &second, 10);
    return (int64_t)strtoull(second, NULL, 10);
}

void blocking_add_wait(void)
{
    __atomic_add_fetch(waited_ns, my_wait_ns(), __ATOMIC_RELAXED);
}

struct timespec blocking_span(const struct context *context)
{
    return (struct timespec){context->ms / 1000, context->ms % 1000 * 1000000};
}

struct timespec blocking_until(clockid_t clock, const struct context *context)
{
    struct timespec until;

    clock_gettime(clock, &until);
    until.tv_sec += context->ms / 1000;
    until.tv_nsec += context->ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}

static const struct call *find(const char *name)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
        for (const struct call *call = tables[i]; call->name; call++)
            if (!strcmp(call->name, name))
                return call;
    return NULL;
}

static void print_names(void)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
        for (const struct call *call = tables[i]; call->name; call++)
            printf("%s %u %ld %d\n", call->name, call->flags | (call->end ? IS_ENDED : 0u),
                   call->result, call->error);
}

static void on_signal(int signo)
{
    (void)signo;
    blocking_handled++;
}

static const char *judge(const struct outcome *outcome, const sigset_t *before)
{
    sigset_t now;

    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int signo = 1; signo < 65; signo++)
        if (sigismember(before, signo) != sigismember(&now, signo))
            return "signal-mask";
    if (outcome->result != -1 && outcome->error != ERRNO_SENTINEL)
        return "errno-changed";
    return outcome->context.good ? "-" : "wrong-data";
}

static void *worker(void *data)
{
    struct outcome *outcome = data;
    sigset_t before;

    outcome->context.tid = gettid();
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    printf("tid %d\n", (int)outcome->context.tid);
    fflush(stdout);
    int64_t begun = now_us();
    errno = ERRNO_SENTINEL;
    outcome->result = outcome->call->make(&outcome->context);
    outcome->error = errno;
    outcome->microseconds = now_us() - begun;
    outcome->fault = judge(outcome, &before);
    blocking_add_wait();
    return NULL;
}

/* Closes the files of all kinds of calls. */
static void clean_up(struct context *context)
{
    for (int i = 0; i < 2; i++)
        if (context->fds[i] >= 0)
            close(context->fds[i]);
    if (context->child > 0) {
        kill(context->child, SIGKILL);
        waitpid(context->child, NULL, 0);
    }
}

static void run(const struct call *call, long ms)
{
    struct outcome outcome = {.call = call, .context = {.ms = ms, .fds = {-1, -1}, .good = true}};
    struct context *context = &outcome.context;

    blocking_handled = 0;
    *waited_ns = -my_wait_ns();
    if (call->prepare && !call->prepare(context)) {
        printf("skip %s\n", strerror(errno));
    } else if (pthread_create(&context->thread, NULL, worker, &outcome) == 0) {
        if (call->end) {
            usleep((useconds_t)ms * 1000);
            call->end(context);
        }
        pthread_join(context->thread, NULL);
        blocking_add_wait();
        printf("done %ld %d %ld %s %ld\n", outcome.result, outcome.error,
               (long)outcome.microseconds, outcome.fault, (long)(*waited_ns / 1000));
    }
    fflush(stdout);
    clean_up(context);
}

/* Without SA_RESTART, to show that the test notices a call that ends too early. */
static void set_up_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
}

int main(int argc, char **argv)
{
    char name[64];
    long ms;

    (void)argv;
    safety_begin();
    if (argc == 1) {
        print_names();
        return 0;
    }
    set_up_signals();
    waited_ns =
        mmap(NULL, sizeof(*waited_ns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (waited_ns == MAP_FAILED)
        return 1;
    while (scanf("%63s %ld", name, &ms) == 2) {
        const struct call *call = find(name);
        if (call)
            run(call, ms);
    }
    return 0;
}
