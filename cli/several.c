#include "cli/several.h"
#include "base/interruptions.h"
#include "cli/choose.h"
#include "cli/faults.h"
#include "cli/message.h"
#include "cli/output/exposition.h"
#include "host/task.h"
#include "run/interrupt.h"
#include "run/output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/*
 * AHEAD_MAX: workers ahead of the first one not yet printed; each has FILES_EACH files open.
 * AHEAD_MIN where few files may be open. FILES_OTHER: all but those and a pidfd for each target.
 */
enum {
    PARALLEL_DEFAULT = 4,
    AHEAD_MIN = 64,
    AHEAD_MAX = 512,
    FILES_EACH = 2,
    FILES_OTHER = 64,
    LOOK_NS = 100000000,
    LOOKS_IDLE = 4
};

enum progress { WAITING, RUNNING, ENDED, PRINTED };

struct worker {
    enum progress progress;
    pid_t pid;
    int out, err;    /* memory files with its output */
    uint64_t ticks;  /* of CPU time, at the last look */
    int idle;        /* looks at which these were the same */
    size_t stalled;  /* 1: for so long that it keeps no slot */
    int code;        /* its exit code, once it has ended */
    int signal;      /* the signal that ended it; 0: none */
    int start_errno; /* why it could not be started; 0: it was */
};

struct several {
    const struct options *options;
    const struct verb *verb;
    struct targets targets;
    struct worker *workers; /* one for each target */
    size_t parallel;        /* workers that run at once, at most */
    size_t ahead;           /* see AHEAD_MAX */
    size_t started, printed, running;
    size_t stalled; /* of those that run */
    struct procfs proc;
    int passed_on;             /* interruptions passed on to the workers */
    int stdout_errno;          /* of the first failed write */
    struct exposition metrics; /* with --prometheus: of all workers, printed at the end */
    sigset_t former;           /* the mask while the tool waits */
};

/* ---- a worker ---- */

/*
 * Runs the verb in a worker. The worker has its own process group, so that it
 * receives Ctrl-C once, from the tool, and is not stopped by Ctrl-Z while it
 * has stopped a thread. If the tool dies, the worker ends as after Ctrl-C.
 */
static _Noreturn void run_worker(const struct several *several, size_t index, pid_t tool)
{
    const struct worker *worker = &several->workers[index];
    struct options options = *several->options;
    int code = EXIT_INTERNAL;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != tool)
        _exit(EXIT_INTERRUPTED);
    signal(SIGCHLD, SIG_DFL);
    interrupt_patience(1, NULL);
    if (dup2(worker->out, STDOUT_FILENO) >= 0 && dup2(worker->err, STDERR_FILENO) >= 0) {
        sigprocmask(SIG_SETMASK, &several->former, NULL);
        options.pin = &several->targets.pins[index];
        options.pid_count = several->targets.count;
        code = several->verb->run(&options, options.pin->pid);
    }
    exit(code);
}

/* Called with the signals blocked: a signal for all workers then reaches the new one too. */
static void start_worker(struct several *several, size_t index)
{
    struct worker *worker = &several->workers[index];
    pid_t tool = getpid();

    several->started++;
    worker->out = memfd_create("stdout", MFD_CLOEXEC);
    worker->err = memfd_create("stderr", MFD_CLOEXEC);
    worker->pid = worker->out < 0 || worker->err < 0 ? -1 : fork();
    if (worker->pid == 0)
        run_worker(several, index, tool);
    if (worker->pid < 0) {
        worker->start_errno = errno;
        worker->code = EXIT_INTERNAL;
        worker->progress = ENDED;
        return;
    }
    worker->progress = RUNNING;
    several->running++;
}

/*
 * Waits for a signal, or, if others are to be started, for the next look.
 *
 * A worker that has used no CPU time for LOOKS_IDLE looks has stalled: it waits for its target,
 * which can keep it until the deadline, and must not keep a slot from the others. A verb with a
 * duration waits by itself.
 */
static void wait_for_workers(struct several *several)
{
    const bool looks = several->started < several->targets.count && !*interrupt_flag();
    const struct timespec look = {.tv_nsec = LOOK_NS};
    struct proc_stat stat;

    if (ppoll(NULL, 0, looks ? &look : NULL, &several->former) ||
        several->verb->takes & TAKES_DURATION)
        return;
    for (size_t i = several->printed; i < several->started; i++) {
        struct worker *worker = &several->workers[i];
        if (worker->progress != RUNNING || process_stat(&several->proc, worker->pid, &stat))
            continue;
        worker->idle = stat.cpu_ticks == worker->ticks ? worker->idle + 1 : 0;
        worker->ticks = stat.cpu_ticks;
        several->stalled += (worker->idle >= LOOKS_IDLE) - worker->stalled;
        worker->stalled = worker->idle >= LOOKS_IDLE;
    }
}

/* Passes on each interruption: the workers count them and decide when to exit at once. */
static void pass_on_interruptions(struct several *several)
{
    for (; several->passed_on < *interrupt_flag(); several->passed_on++)
        for (size_t i = 0; i < several->started; i++)
            if (several->workers[i].progress == RUNNING)
                kill(several->workers[i].pid, SIGTERM);
}

static void collect_workers(struct several *several)
{
    for (size_t i = several->printed; i < several->started; i++) {
        struct worker *worker = &several->workers[i];
        int status;
        if (worker->progress != RUNNING || waitpid(worker->pid, &status, WNOHANG) != worker->pid)
            continue;
        worker->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        worker->code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_INTERNAL;
        worker->progress = ENDED;
        several->running--;
        several->stalled -= worker->stalled;
        worker->stalled = 0;
    }
}

/* ---- the output of the workers ---- */

void json_lines_join(struct json_lines *lines, char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (lines->escaped)
            lines->escaped = false;
        else if (lines->text && bytes[i] == '\\')
            lines->escaped = true;
        else if (bytes[i] == '"')
            lines->text = !lines->text;
        else if (lines->text)
            continue;
        else if (bytes[i] == '{' || bytes[i] == '[')
            lines->depth++;
        else if ((bytes[i] == '}' || bytes[i] == ']') && lines->depth)
            lines->depth--;
        else if (lines->depth && (bytes[i] == '\n' || bytes[i] == '\t'))
            bytes[i] = ' ';
    }
}

/*
 * Continues after an interruption, which is passed on to the workers first. A
 * second interruption ends the write (output_may_retry), because the reader may
 * hang. Returns 0 or errno.
 */
static int write_whole(struct several *several, int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && !output_may_retry(fd))
            return errno;
        if (n < 0)
            pass_on_interruptions(several);
        else {
            bytes += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* Copies a worker's output; with --json each document on stdout becomes one line. */
static int copy_output(struct several *several, int from, int to)
{
    bool join = to == STDOUT_FILENO && several->options->json;
    struct json_lines lines = {0};
    char bytes[16384];
    ssize_t n = 0;
    int err = 0;

    if (from < 0 || lseek(from, 0, SEEK_SET) < 0)
        return 0;
    while (!err && (n = read(from, bytes, sizeof bytes)) > 0) {
        if (join)
            json_lines_join(&lines, bytes, (size_t)n);
        err = write_whole(several, to, bytes, (size_t)n);
    }
    return err;
}

static void report_lost(const struct several *several, const struct worker *worker, pid_t pid)
{
    const struct subject subject = {.verb = "get a result for process",
                                    .pid = (int)pid,
                                    .json = several->options->json && !several->stdout_errno};
    const char *name = worker->signal ? sigabbrev_np(worker->signal) : NULL;
    struct fault fault;

    if (worker->start_errno)
        fault_set(&fault, FAULT_INTERNAL, worker->start_errno, "fork",
                  "could not start a worker process");
    else
        fault_set(&fault, FAULT_LOST, 0, "wait", "worker process %d was killed by SIG%s",
                  (int)worker->pid, name ? name : "?");
    (void)message_fault(&subject, &fault);
    fflush(stdout);
}

/* Adds a worker's output to those of the others. Returns 0 or errno. */
static int gather_metrics(struct several *several, int from)
{
    char *text;
    struct stat st;
    int err = 0;

    if (from < 0 || fstat(from, &st) || st.st_size == 0)
        return 0;
    text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, from, 0);
    if (text == MAP_FAILED)
        return errno;
    if (!exposition_add(&several->metrics, text, (size_t)st.st_size))
        err = ENOMEM;
    munmap(text, (size_t)st.st_size);
    return err;
}

/* A killed worker may have printed part of a line on stdout: only its stderr is copied. */
static void print_worker(struct several *several, size_t index)
{
    struct worker *worker = &several->workers[index];

    if (!worker->signal && !several->stdout_errno)
        several->stdout_errno = several->options->prometheus
                                    ? gather_metrics(several, worker->out)
                                    : copy_output(several, worker->out, STDOUT_FILENO);
    (void)copy_output(several, worker->err, STDERR_FILENO);
    if (worker->signal || worker->start_errno)
        report_lost(several, worker, several->targets.pins[index].pid);
    util_close(&worker->out);
    util_close(&worker->err);
    worker->progress = PRINTED;
}

/* "10 targets: 8 done, 1 not permitted, 1 ended" */
static void print_summary(const struct several *several)
{
    static const struct {
        int code;
        const char *words;
    } kinds[] = {
        {EXIT_DONE, "done"},
        {EXIT_INTERNAL, "failed"},
        {EXIT_USAGE, "usage error"},
        {EXIT_GONE, "ended"},
        {EXIT_DENIED, "not permitted"},
        {EXIT_NO_ALLOCATOR, "without jemalloc"},
        {EXIT_NO_PROFILING, "without profiling"},
        {EXIT_NO_SAFE_POINT, "no safe point"},
        {EXIT_CALL_DEADLINE, "call timed out"},
        {EXIT_OUTPUT, "output not written"},
        {EXIT_REFUSED, "refused"},
        {EXIT_INTERRUPTED, "interrupted"},
    };
    const char *comma = ":";

    fprintf(stderr, "jeattach: %zu targets", several->targets.count);
    for (size_t kind = 0; kind < ARRAY_LEN(kinds); kind++) {
        size_t n = 0;
        for (size_t i = 0; i < several->started; i++)
            n += several->workers[i].code == kinds[kind].code;
        if (n) {
            fprintf(stderr, "%s %zu %s", comma, n, kinds[kind].words);
            comma = ",";
        }
    }
    if (several->started < several->targets.count)
        fprintf(stderr, "%s %zu not started", comma, several->targets.count - several->started);
    fputc('\n', stderr);
}

/* ---- all workers ---- */

static void ignore_signal(int signo)
{
    (void)signo; /* SIGCHLD only has to interrupt ppoll(2) */
}

/* One that stalls should keep nobody behind it. */
static size_t choose_ahead(const struct several *several)
{
    const size_t taken = several->targets.count + FILES_OTHER;
    struct rlimit limit;
    size_t ahead;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < taken)
        return AHEAD_MIN;
    ahead = ((size_t)limit.rlim_cur - taken) / FILES_EACH;
    return ahead < AHEAD_MIN ? AHEAD_MIN : ahead > AHEAD_MAX ? AHEAD_MAX : ahead;
}

/* The highest exit code; targets that were not started count as interrupted. */
static int worst_code(const struct several *several)
{
    int worst = several->started < several->targets.count ? EXIT_INTERRUPTED : EXIT_DONE;
    struct fault fault;

    for (size_t i = 0; i < several->started; i++)
        if (several->workers[i].code > worst)
            worst = several->workers[i].code;
    if (several->stdout_errno) {
        const struct subject subject = {.verb = "print", .name = "the results"};
        output_stdout_failed(&fault, several->stdout_errno);
        int code = message_fault(&subject, &fault);
        worst = code > worst ? code : worst;
    }
    return worst;
}

static int run_workers(struct several *several)
{
    struct sigaction action = {.sa_handler = ignore_signal, .sa_flags = SA_RESTART};
    const struct exposition *metrics = &several->metrics;
    sigset_t waited; /* signals that are blocked except while the tool waits */

    several->workers = calloc(several->targets.count, sizeof *several->workers);
    if (!several->workers) {
        message("out of memory for %zu processes", several->targets.count);
        return EXIT_INTERNAL;
    }
    for (size_t i = 0; i < several->targets.count; i++)
        several->workers[i].out = several->workers[i].err = -1;
    several->ahead = choose_ahead(several);
    sigaction(SIGCHLD, &action, NULL);
    sigemptyset(&waited);
    sigaddset(&waited, SIGCHLD);
    interruptions_add(&waited);
    if (procfs_open(&several->proc, "/proc"))
        several->proc.dirfd = -1;
    interrupt_patience(INT_MAX, NULL); /* the workers decide when to exit at once */

    /* Until all that were started are printed, and all are started or the tool is interrupted. */
    while (several->printed < several->started ||
           (several->started < several->targets.count && !*interrupt_flag())) {
        /* Signals are delivered only in ppoll(), so none is lost between a check and the wait. */
        sigprocmask(SIG_BLOCK, &waited, &several->former);
        while (!*interrupt_flag() && several->started < several->targets.count &&
               several->running - several->stalled < several->parallel &&
               several->started - several->printed < several->ahead)
            start_worker(several, several->started);
        pass_on_interruptions(several);
        collect_workers(several);
        if (several->running && several->workers[several->printed].progress == RUNNING)
            wait_for_workers(several);
        sigprocmask(SIG_SETMASK, &several->former, NULL);
        while (several->printed < several->started &&
               several->workers[several->printed].progress == ENDED)
            print_worker(several, several->printed++);
    }

    for (size_t i = 0; i < metrics->count && !several->stdout_errno; i++)
        several->stdout_errno =
            write_whole(several, STDOUT_FILENO, metrics->list[i].text, metrics->list[i].len);
    int code = worst_code(several);
    if (!several->options->quiet)
        print_summary(several);
    procfs_close(&several->proc);
    free(several->workers);
    exposition_free(&several->metrics);
    return code;
}

/* Runs the verb on the processes that were found. */
static int run_found(struct several *several)
{
    char fix[OPTIONS_FIX];
    const char *wrong;

    if (several->targets.count == 1) {
        struct options one = *several->options;
        one.pin = &several->targets.pins[0];
        one.pid_count = 1;
        return several->verb->run(&one, one.pin->pid);
    }
    wrong = options_wrong_with_several(several->options, several->verb->takes);
    if (!wrong)
        return run_workers(several);
    message("%s, but %zu match", wrong, several->targets.count);
    options_fix(several->options, wrong, several->verb->name, fix, sizeof fix);
    fprintf(stderr, "  fix:   %s\n", fix);
    if (several->options->json)
        message_usage_json(several->verb->name);
    return EXIT_USAGE;
}

int several_run(const struct options *options, const struct verb *verb)
{
    /* A verb that mostly waits is to sample all processes over the same period. */
    int usual = verb->takes & TAKES_DURATION ? OPTIONS_PARALLEL_MAX : PARALLEL_DEFAULT;
    struct several several = {
        .options = options,
        .verb = verb,
        .parallel = (size_t)(options->parallel ? options->parallel : usual),
    };
    const struct selection *selection = &several.targets.selection;
    int code = choose_targets(&several.targets, options, verb->takes);
    const bool chosen = code == EXIT_DONE;

    if (chosen && !several.targets.count)
        message("profiling is on in none of the processes that match%s; nothing was done",
                selection->left_count ? " and could be examined" : "");
    else if (chosen)
        code = run_found(&several);
    /*
     * A process that was asked for by its name and does not answer counts as one that did not come
     * to a safe point. Of the others nobody knows whether they use jemalloc, and anybody can make
     * one: they are only reported.
     */
    for (size_t i = 0; chosen && options->name && i < selection->left_count; i++)
        if (selection->left[i].matches && code < EXIT_NO_SAFE_POINT)
            code = EXIT_NO_SAFE_POINT;
    targets_free(&several.targets);
    return code;
}
