/* A freeze stops every thread of a process, and none of them notices. */
#include "attach/faults.h"
#include "check.h"
#include "host/task.h"
#include "inject/faults.h"
#include "inject/freeze.h"
#include "run/apart.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SPINNERS = 6, WAIT_MS = 150, LOOK_US = 20000 };

/* What the process and the test share. */
static struct shared {
    _Atomic unsigned long rounds[SPINNERS];
    _Atomic unsigned long created, waits, handled;
    _Atomic int eintr, early;
    _Atomic bool ready;
} * shared;

static struct procfs proc;
static struct gate gate;

/* ---- processes ---- */

static void *spin(void *arg)
{
    _Atomic unsigned long *rounds = arg;

    for (;;)
        (*rounds)++;
    return NULL;
}

static void *end_at_once(void *arg)
{
    return arg;
}

static void *create_others(void *arg)
{
    pthread_t thread;

    for (;; shared->created++)
        if (pthread_create(&thread, NULL, end_at_once, NULL) == 0)
            pthread_join(thread, NULL);
    return arg;
}

static uint64_t now_ms(void)
{
    return clock_now() / 1000000;
}

/* epoll_wait(2) returns EINTR after every stop, unless it is repeated. */
static void *wait_for_events(void *arg)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;

    for (;; shared->waits++) {
        uint64_t begun = now_ms();
        int n = epoll_wait(fd, &event, 1, WAIT_MS);
        shared->eintr += n < 0 && errno == EINTR;
        shared->early += n == 0 && now_ms() - begun < WAIT_MS - 1;
    }
    return arg;
}

static void count_signal(int signo)
{
    (void)signo;
    shared->handled++;
}

static _Noreturn void main_of_busy(void)
{
    pthread_t thread;

    for (size_t i = 0; i < SPINNERS; i++)
        pthread_create(&thread, NULL, spin, &shared->rounds[i]);
    pthread_create(&thread, NULL, create_others, NULL);
    pthread_create(&thread, NULL, wait_for_events, NULL);
    shared->ready = true;
    pthread_exit(NULL); /* the first thread stays as a zombie */
}

static _Noreturn void main_of_waiting(void)
{
    signal(SIGUSR1, count_signal);
    shared->ready = true;
    wait_for_events(NULL);
    _exit(1);
}

static _Noreturn void main_of_vfork(void)
{
    shared->ready = true;
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            syscall(SYS_pause);
    }
    _exit(0);
}

static pid_t start(void (*function)(void))
{
    pid_t pid;

    memset(shared, 0, sizeof *shared);
    pid = fork();
    if (pid == 0) {
        alarm(60);
        function();
    }
    for (int i = 0; i < 5000 && !shared->ready; i++)
        usleep(1000);
    return pid;
}

static void finish(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, __WALL);
}

/* The number of its threads, without ended ones, that are in this state; 0: in any. */
static size_t count_threads(pid_t pid, char state)
{
    struct task_dir dir;
    struct proc_stat stat;
    size_t count = 0;
    pid_t tid;

    if (task_dir_of_threads(&dir, &proc, pid))
        return 0;
    while ((tid = task_dir_next(&dir)))
        if (thread_stat(&proc, pid, tid, &stat) == 0 && stat.state != 'Z' && stat.state != 'X')
            count += !state || stat.state == state;
    task_dir_close(&dir);
    return count;
}

static char state_of(pid_t pid)
{
    struct proc_stat stat;

    return process_stat(&proc, pid, &stat) == 0 ? stat.state : '?';
}

static bool reaches(pid_t pid, char state)
{
    for (int i = 0; i < 5000 && state_of(pid) != state; i++)
        usleep(1000);
    return state_of(pid) == state;
}

/* ---- a freeze ---- */

struct attempt {
    pid_t pid;
    void (*meanwhile)(const struct attempt *attempt, const struct freeze *freeze);
    fault_code code;
    struct fault fault; /* unless the code is FAULT_NONE */
    size_t threads;
    uint64_t ns;
};

static void freeze_once(void *ctx)
{
    struct attempt *attempt = ctx;
    struct target target;
    struct deadline deadline;
    struct freeze freeze;

    if (!CHECK(target_open(&target, &proc, attempt->pid, NULL) == FAULT_NONE) ||
        !CHECK(deadline_start(&deadline, 20000000000, NULL, NULL) == FAULT_NONE))
        return;
    const struct freeze_env env = {&target, &gate, &deadline};
    const int nice_before = getpriority(PRIO_PROCESS, 0);
    attempt->code = freeze_begin(&freeze, &env, &attempt->fault);
    if (attempt->code == FAULT_NONE && attempt->meanwhile)
        attempt->meanwhile(attempt, &freeze);
    freeze_end(&freeze);
    CHECK(sched_getscheduler(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) == nice_before);
    attempt->threads = freeze.threads;
    attempt->ns = freeze.ns;
    deadline_stop(&deadline);
    target_close(&target);
}

static struct attempt freeze(pid_t pid, void (*meanwhile)(const struct attempt *attempt,
                                                          const struct freeze *freeze))
{
    struct attempt attempt = {.pid = pid, .code = FAULT_INTERNAL, .meanwhile = meanwhile};

    apart_run(freeze_once, &attempt);
    return attempt;
}

/* A tick of the deadline ends a sleep early. */
static void look_for_a_while(void)
{
    for (uint64_t until = clock_now() + LOOK_US * 1000ull; clock_now() < until;)
        usleep(LOOK_US);
}

static void see_all_stopped(const struct attempt *attempt, const struct freeze *freeze)
{
    struct shared before, after;

    CHECK(count_threads(attempt->pid, 't') == count_threads(attempt->pid, 0));
    CHECK(count_threads(attempt->pid, 0) == freeze->threads);
    memcpy(&before, shared, sizeof before);
    look_for_a_while();
    memcpy(&after, shared, sizeof after);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
}

static void test_all_threads(void)
{
    pid_t pid = start(main_of_busy);

    CHECK(reaches(pid, 'Z'));
    for (int i = 0; i < 20; i++) {
        unsigned long rounds = shared->rounds[SPINNERS - 1], created = shared->created;
        const struct attempt attempt = freeze(pid, see_all_stopped);
        CHECK(attempt.code == FAULT_NONE && attempt.threads >= SPINNERS + 2);
        CHECK(attempt.ns >= LOOK_US * 1000);
        CHECK(count_threads(pid, 't') == 0);
        for (int k = 0;
             k < 5000 && (shared->rounds[SPINNERS - 1] == rounds || shared->created == created);
             k++)
            usleep(1000);
        CHECK(shared->rounds[SPINNERS - 1] > rounds && shared->created > created);
    }
    CHECK(shared->eintr == 0 && shared->early == 0);
    finish(pid);
}

/* A stop a moment after the last one finds a call that is just being repeated. */
static void test_no_eintr(void)
{
    pid_t pid = start(main_of_waiting);

    for (int i = 0; i < 200; i++) {
        CHECK(freeze(pid, NULL).code == FAULT_NONE);
        if (i % 20 == 0)
            usleep(WAIT_MS * 1500);
    }
    CHECK(shared->waits > 0 && shared->eintr == 0 && shared->early == 0);
    finish(pid);
}

static void send_signal(const struct attempt *attempt, const struct freeze *freeze)
{
    (void)freeze;
    kill(attempt->pid, SIGUSR1);
    usleep(LOOK_US);
    CHECK(shared->handled == 0);
}

/* A signal is taken after the freeze, and ends epoll_wait(2) as it would without one. */
static void test_signal(void)
{
    pid_t pid = start(main_of_waiting);

    CHECK(reaches(pid, 'S'));
    CHECK(freeze(pid, send_signal).code == FAULT_NONE);
    for (int i = 0; i < 5000 && !shared->eintr; i++)
        usleep(1000);
    CHECK(shared->handled == 1 && shared->eintr == 1);
    finish(pid);
}

static void test_stopped(void)
{
    pid_t pid = start(main_of_waiting);

    kill(pid, SIGSTOP);
    CHECK(reaches(pid, 'T'));
    CHECK(freeze(pid, see_all_stopped).code == FAULT_NONE);
    CHECK(reaches(pid, 'T')); /* its thread may have to wait for a CPU to stop again */
    unsigned long waits = shared->waits;
    kill(pid, SIGCONT);
    for (int i = 0; i < 5000 && shared->waits == waits; i++)
        usleep(1000);
    CHECK(shared->waits > waits);
    finish(pid);
}

static void kill_it(const struct attempt *attempt, const struct freeze *freeze)
{
    (void)freeze;
    kill(attempt->pid, SIGKILL);
    usleep(LOOK_US);
}

/* Nothing keeps a process from its end: not even a stop. */
static void test_killed(void)
{
    pid_t pid = start(main_of_busy);
    int status = 0;

    CHECK(freeze(pid, kill_it).code == FAULT_NONE);
    CHECK(waitpid(pid, &status, __WALL) == pid && WTERMSIG(status) == SIGKILL);
}

/* Its first thread that has not ended: a spinner. */
static pid_t spinner_of(pid_t pid)
{
    struct task_dir dir;
    pid_t tid = 0;

    if (task_dir_of_threads(&dir, &proc, pid))
        return 0;
    while ((tid = task_dir_next(&dir)) == pid)
        ;
    task_dir_close(&dir);
    return tid;
}

/* By another process, and only one of its threads. */
static void test_traced(void)
{
    pid_t pid = start(main_of_busy), tid = spinner_of(pid), tracer = fork();
    struct proc_status status = {0};

    if (tracer == 0) {
        alarm(60);
        ptrace(PTRACE_SEIZE, tid, 0, 0);
        for (;;)
            pause();
    }
    for (int i = 0; i < 5000 && status.tracer != tracer; i++, usleep(1000))
        (void)thread_status(&proc, pid, tid, &status);
    const struct attempt attempt = freeze(pid, NULL);
    CHECK(attempt.code == FAULT_TRACED && attempt.fault.pid == tracer);
    CHECK(count_threads(pid, 't') == 0);
    finish(tracer);
    CHECK(freeze(pid, see_all_stopped).code == FAULT_NONE);
    finish(pid);
}

/* The parent of a vfork(2) is uninterruptible until its child is gone. */
static void test_uninterruptible(void)
{
    pid_t pid = start(main_of_vfork);
    uint64_t begun = now_ms();

    CHECK(reaches(pid, 'D'));
    const struct attempt attempt = freeze(pid, NULL);
    CHECK(attempt.code == FAULT_NO_FREEZE && strstr(attempt.fault.what, "uninterruptible"));
    CHECK(attempt.ns == 0 && now_ms() - begun < 5000);
    finish(pid);
}

int main(void)
{
    alarm(55);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!CHECK(procfs_open(&proc, "/proc") == 0 && shared != MAP_FAILED))
        return check_result();
    gate_init(&gate);
    test_all_threads();
    test_no_eintr();
    test_signal();
    test_stopped();
    test_killed();
    test_traced();
    test_uninterruptible();
    procfs_close(&proc);
    return check_result();
}
