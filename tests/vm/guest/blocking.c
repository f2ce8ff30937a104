/*
 * The blocking calls of tests/safety: the tool attaches while they wait, and they end with their
 * own result and never with EINTR. Those of a batch wait at the same time; one that ends before the
 * tool comes to it is repeated, and waits longer.
 */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENDS_LATER = 1, CUT_SHORT = 2, IS_ENDED = 4, LET_BE = 8 }; /* tests/safety/blocking.h */
enum { CALLS_MAX = 128, BATCH = 14, TURNS = 5, FIRST_MS = 2000, ATTACHES = 2, EARLY_US = 20000 };

struct blocked {
    char name[64];
    unsigned flags;
    long result, ms;
    int error;
    pid_t pid, tid;
    int in, out; /* the ends of its pipes */
    unsigned attaches;
    bool done;
};

static struct blocked calls[CALLS_MAX];
static size_t call_count;
static unsigned absent, attaches;

/* The calls of the short run: those that are never restarted, and one for each way to restart.
 * A thread in a call that does more than wait is let be; tests/safety shows that. */
static bool is_wanted(const char *name)
{
    static const char *const wanted[] = {
        "epoll_wait",   "epoll_pwait", "poll",         "ppoll",         "select",
        "nanosleep",    "futex_wait",  "recv_timeout", "futex_waitv",   "clock_nanosleep",
        "sigtimedwait", "pause",       "read_pipe",    "accept_timeout"};

    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
        if (strcmp(wanted[i], name) == 0)
            return true;
    return long_run;
}

static void list_calls(void)
{
    const char *path = format("%s/list", make_directory());
    struct start start = {.out = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    pid_t pid = process_start(&start, (const char *const[]){"/victims/blocking", NULL});

    close(start.out);
    struct result result = process_result(pid, path, "/dev/null");
    call_count = 0;
    for (const char *p = result.out; *p; p += strcspn(p, "\n") + 1) {
        struct blocked *call = &calls[call_count];
        *call = (struct blocked){.ms = FIRST_MS};
        if (call_count < CALLS_MAX &&
            sscanf(p, "%63s %u %ld %d", call->name, &call->flags, &call->result, &call->error) == 4)
            call_count += is_wanted(call->name) && !(call->flags & LET_BE);
    }
}

/* Reads one line of its answers; false if none comes. */
static bool read_line(int fd, char *line, size_t size)
{
    struct pollfd poll_fd = {fd, POLLIN, 0};
    size_t used = 0;

    while (used < size - 1 && poll(&poll_fd, 1, 120000) == 1 && read(fd, line + used, 1) == 1 &&
           line[used] != '\n')
        used++;
    line[used] = '\0';
    return used > 0;
}

static void begin(struct blocked *call)
{
    const char *line = format("%s %ld\n", call->name, call->ms);
    char answer[128];
    int in[2], out[2];

    call->tid = 0;
    call->attaches = 0;
    REQUIRE(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "no pipes");
    struct start start = {.in = in[0],
                          .out = out[1],
                          .directory = make_directory(),
                          .variables = (const char *const[]){
                              "MALLOC_CONF=prof:true,prof_active:false,lg_prof_sample:12", NULL}};
    call->pid = process_start(&start, (const char *const[]){"/victims/blocking", "-", NULL});
    close(in[0]);
    close(out[1]);
    call->in = in[1];
    call->out = out[0];
    if (write(call->in, line, strlen(line)) < 0 || !read_line(call->out, answer, sizeof(answer)))
        check_fail("%s: no answer", call->name);
    if (sscanf(answer, "tid %d", &call->tid) == 1)
        return;
    call->done = true; /* skip: this kernel does not have the call */
    absent++;
}

static bool is_asleep(const struct blocked *call)
{
    const char *text = read_file(format("/proc/%d/task/%d/stat", (int)call->pid, (int)call->tid));
    const char *end = strrchr(text, ')');

    return !end || strncmp(end, ") S", 3) == 0 || strncmp(end, ") Z", 3) == 0;
}

static void attach(struct blocked *call)
{
    static const char *const verbs[] = {"stats", "on"};

    if (!call->tid || check_failed())
        return;
    if (strcmp(call->name, "sched_yield") != 0)
        (void)WAIT_UNTIL(is_asleep(call), 5);
    for (int i = 0; i < ATTACHES; i++) {
        struct result result = TOOL(verbs[i], text_of(call->pid), "--thread", text_of(call->tid));
        REQUIRE(result.code == 0 || result.code == 3, "%s: %s", call->name, result_text(&result));
        call->attaches += result.code == 0;
    }
}

/* The helper that ends it runs since before the call began. */
static bool begins_earlier(const struct blocked *call)
{
    static const char *const names[] = {"waitpid", "waitid", "pthread_join", "read_timerfd"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(names[i], call->name) == 0)
            return true;
    return call->flags & IS_ENDED;
}

static void judge(struct blocked *call, long result, int error, long us, const char *fault)
{
    bool absent_here = result < 0 && error == ENOSYS;

    call->done = absent_here || call->attaches > 0;
    absent += absent_here;
    attaches += call->attaches;
    if (absent_here || call->flags & CUT_SHORT)
        return;
    REQUIRE(result == call->result && (result >= 0 || error == call->error),
            "%s returned %ld, errno %d after %ld us and %u attaches", call->name, result, error, us,
            call->attaches);
    REQUIRE(strcmp(fault, "-") == 0, "%s: %s", call->name, fault);
    REQUIRE(begins_earlier(call) || us > call->ms * 1000 - EARLY_US, "%s ended after %ld us",
            call->name, us);
}

static void finish(struct blocked *call)
{
    char answer[128] = "", fault[64] = "";
    long result = 0, us = 0;
    int error = 0;

    if (call->tid && !check_failed()) {
        if (read_line(call->out, answer, sizeof(answer)) &&
            sscanf(answer, "done %ld %d %ld %63s", &result, &error, &us, fault) == 4)
            judge(call, result, error, us, fault);
        else
            check_fail("%s: the victim %s", call->name,
                       process_alive(call->pid) ? "does not answer" : "died");
    }
    close(call->in);
    close(call->out);
    process_end(call->pid);
    call->ms *= 2;
}

static void run_batch(struct blocked **batch, size_t count)
{
    for (size_t i = 0; i < count && !check_failed(); i++) {
        begin(batch[i]);
        attach(batch[i]);
    }
    for (size_t i = 0; i < count && !check_failed(); i++)
        finish(batch[i]);
}

static void run_turn(void)
{
    struct blocked *batch[BATCH];
    size_t count = 0;

    for (size_t i = 0; i < call_count && !check_failed(); i++) {
        if (calls[i].done)
            continue;
        batch[count++] = &calls[i];
        if (count == BATCH) {
            run_batch(batch, count);
            count = 0;
        }
    }
    if (!check_failed())
        run_batch(batch, count);
}

static void all_calls(void)
{
    size_t done = 0;

    absent = attaches = 0;
    list_calls();
    REQUIRE(call_count >= 14, "only %zu calls are known", call_count);
    for (int turn = 0; turn < TURNS && !check_failed(); turn++)
        run_turn();
    for (size_t i = 0; i < call_count && !check_failed(); i++) {
        if (!calls[i].done)
            check_fail("%s is over before the tool comes to it", calls[i].name);
        done++;
    }
    if (!check_failed())
        check_note("%zu calls, %u attaches, %u calls unknown to this kernel", done, attaches,
                   absent);
}

const struct check blocking_checks[] = {
    {"blocking", all_calls, false},
    {NULL, NULL, false},
};
