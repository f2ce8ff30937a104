/* jeattach watch */
#include "cli/choose.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/watch_event.h"
#include "cli/rule_text.h"
#include "cli/verbs/verbs.h"
#include "run/filename.h"
#include "run/follow.h"
#include "run/interrupt.h"
#include "run/output.h"
#include "run/reserve.h"
#include "run/watching.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SECOND_NS ((uint64_t)1000000000)

struct watcher {
    const struct options *options;
    struct options quiet; /* for the job: events are printed instead of its messages */
    struct job job;
    struct watching watch;
};

/* ---- options ---- */

static bool take_rules(struct rules *rules, const struct watch_options *given)
{
    rules->count = given->rule_count;
    rules->cooldown_ns = given->cooldown_ns;
    for (size_t i = 0; i < given->rule_count; i++) {
        enum rule_flaw flaw = rule_parse(&rules->list[i], given->rules[i]);
        char clean[64];
        if (flaw == RULE_GOOD)
            continue;
        message("invalid rule '%s': %s", message_clean(given->rules[i], clean, sizeof clean),
                rule_flaw_text(flaw));
        fprintf(stderr, "  fix:   jeattach watch --help\n");
        return false;
    }
    return true;
}

/* Checks that the directory exists and that a file can be created in it. */
static fault_code check_directory(const char *directory, struct fault *fault)
{
    struct output output = {.fd = -1};
    char path[FILENAME_MAX_BYTES];
    fault_code rc;
    struct stat st;

    if (stat(directory, &st))
        return fault_set(fault, FAULT_OUTPUT, errno, "write output", "%s", directory);
    if (!S_ISDIR(st.st_mode))
        return fault_set(fault, FAULT_OUTPUT, ENOTDIR, "write output", "%s", directory);
    snprintf(path, sizeof path, "%s/x", directory);
    rc = output_open(&output, path, fault);
    output_close(&output);
    return rc;
}

/* ---- events ---- */

static fault_code report_event(void *ctx, const struct watch_event *event, struct fault *fault)
{
    const struct watcher *watcher = ctx;
    const struct subject subject = job_subject(&watcher->job);
    const char *cause = NULL;
    char text[512];

    if (event->kind == EVENT_FAILED)
        cause = message_cause(&subject, event->fault, text, sizeof text);
    else if (event->kind == EVENT_STOPPED)
        cause = event->course == COURSE_FULL ? "it has all its profiles" : "interrupted";
    return watch_event_print(watcher->options, event, cause, fault);
}

/* ---- the end of one process ---- */

/* Prints rc, if it is a fault, and restores prof.active if needed. Returns the exit code. */
static int finish_watch(struct watcher *watcher, fault_code rc)
{
    struct watching *watch = &watcher->watch;

    if (!watching_stop(watch))
        return EXIT_DONE;
    return job_finish_sampling(&watcher->job, &watch->sampling, rc, &watch->fault);
}

/* Closes a process that is gone: nothing is to be restored. */
static void leave_process(struct watcher *watcher)
{
    if (watching_stop(&watcher->watch))
        (void)job_finish(&watcher->job, FAULT_NONE, NULL);
}

static int finish_stopped(struct watcher *watcher, enum course why, int code)
{
    struct watching *watch = &watcher->watch;
    struct watch_event event = watching_event(watch, EVENT_STOPPED);
    enum course course;
    int closed;

    event.course = why;
    course = watching_report(watch, &event, COURSE_ON);
    closed = finish_watch(watcher, course == COURSE_FAILED ? watch->fault.code : FAULT_NONE);
    return closed != EXIT_DONE ? closed : code;
}

static enum course leave_ended(struct watcher *watcher)
{
    struct watch_event event = watching_event(&watcher->watch, EVENT_ENDED);
    enum course course = watching_report(&watcher->watch, &event, COURSE_ON);

    leave_process(watcher);
    return course;
}

/* Ends the watch after this course. Returns the exit code. */
static int end_with(struct watcher *watcher, enum course course)
{
    switch (course) {
    case COURSE_FULL:
        return finish_stopped(watcher, course, EXIT_DONE);
    case COURSE_INTERRUPTED:
        return finish_stopped(watcher, course, EXIT_INTERRUPTED);
    case COURSE_ENDED:
        return leave_ended(watcher) == COURSE_FAILED ? EXIT_OUTPUT : EXIT_GONE;
    default:
        return finish_watch(watcher, watcher->watch.fault.code);
    }
}

/* ---- one process, by its pid ---- */

static fault_code describe_watch(struct watcher *watcher)
{
    struct watching *watch = &watcher->watch;
    fault_code rc = attachment_open(&watch->attachment, &watch->request.attach, &watch->fault);

    watch->attached = true;
    if (rc == FAULT_NONE)
        rc = job_describe(&watcher->job, verb_watch.calls, &watch->fault);
    return rc;
}

/* False: interrupted. */
static bool pause_for(uint64_t ns)
{
    const struct pause pause = {.until = clock_now() + ns, .interrupted = interrupt_flag()};

    return pause_until(&pause) != PAUSE_INTERRUPTED;
}

static int watch_pid(struct watcher *watcher)
{
    enum course course;

    do {
        fault_code rc = watching_open(&watcher->watch);
        if (rc != FAULT_NONE)
            return finish_watch(watcher, rc);
        course = watching_run(&watcher->watch);
        if (course == COURSE_EXECED) {
            leave_process(watcher);
            (void)pause_for(SECOND_NS); /* the new program is being loaded */
        }
    } while (course == COURSE_EXECED);
    return end_with(watcher, course);
}

/* ---- processes found by a search ---- */

struct search {
    struct watcher *watcher;
    struct follow follow;
    struct target_pin former; /* the process before; its pidfd is not used */
    unsigned failures;        /* consecutive, to open the same process */
    bool patient;             /* a failure is retried, as a process may just be starting */
};

static enum course report_waiting(struct search *search)
{
    const struct options *options = search->watcher->options;
    const char *name = options->name        ? options->name
                       : options->container ? options->container
                                            : options->cgroup;
    const struct watch_event event = {.kind = EVENT_WAITING, .name = name ? name : "a process"};

    search->patient = true;
    return watching_report(&search->watcher->watch, &event, COURSE_ON);
}

/* After a failure: retries the process later, or waits for its successor. */
static enum course try_later(struct search *search, fault_code rc)
{
    struct watcher *watcher = search->watcher;
    struct watching *watch = &watcher->watch;
    uint64_t pause = search->failures < 6 ? SECOND_NS << search->failures : 60 * SECOND_NS;
    enum course course = COURSE_ON;

    if (fault_is_gone(rc)) {
        leave_process(watcher);
        return pause_for(SECOND_NS) ? COURSE_ON : COURSE_INTERRUPTED;
    }
    search->follow.done = fault_is_permanent(rc);
    search->failures++;
    course = watching_report_failed(watch, 0, search->follow.done ? 0 : pause);
    if (watch->sampling.owed)
        (void)finish_watch(watcher, FAULT_NONE);
    else
        leave_process(watcher);
    if (course == COURSE_ON && !search->follow.done && !pause_for(pause))
        course = COURSE_INTERRUPTED;
    return course;
}

static void take_found(struct search *search)
{
    const struct target_pin *pin = &search->follow.pin;
    struct watching *watch = &search->watcher->watch;

    watch->request.attach.pin = pin;
    watch->request.attach.pid = pin->pid;
    if (pin->pid != search->former.pid || pin->start != search->former.start) {
        watch->made = 0;
        search->failures = 0;
    }
    search->former = *pin;
}

/* Returns false, with *code, when the watch is over. */
static bool watch_found(struct search *search, int *code)
{
    struct watcher *watcher = search->watcher;
    fault_code rc;
    enum course course;

    take_found(search);
    rc = watching_open(&watcher->watch);
    if (rc != FAULT_NONE && (!search->patient || rc == FAULT_INTERRUPTED)) {
        *code = finish_watch(watcher, rc);
        return false;
    }
    course = rc == FAULT_NONE ? watching_run(&watcher->watch) : try_later(search, rc);
    if (rc == FAULT_NONE && course == COURSE_ENDED)
        course = leave_ended(watcher) == COURSE_ON ? report_waiting(search) : COURSE_FAILED;
    else if (course == COURSE_EXECED)
        leave_process(watcher);
    else if (course == COURSE_FULL && !watcher->options->once) {
        search->follow.done = true;
        *code = finish_stopped(watcher, course, EXIT_DONE);
        return *code == EXIT_DONE && report_waiting(search) == COURSE_ON;
    }
    search->patient = true;
    if (course == COURSE_ON || course == COURSE_EXECED)
        return true;
    *code = end_with(watcher, course);
    return false;
}

/* Searches once, so that wrong options are reported as by every verb. EXIT_DONE: none. */
static int look_first(struct search *search)
{
    struct targets targets;
    size_t count;
    enum follow_end end = follow_look(&search->follow, &count, &search->watcher->watch.fault);
    int code;

    if (end == FOLLOW_FOUND)
        return EXIT_DONE;
    if (end == FOLLOW_WAITING && count == 0)
        return report_waiting(search) == COURSE_ON ? EXIT_DONE : EXIT_OUTPUT;
    code = choose_targets(&targets, search->watcher->options);
    targets_free(&targets);
    return code;
}

static int watch_search(struct search *search)
{
    int code = look_first(search);

    if (code != EXIT_DONE)
        return code;
    while (follow_wait(&search->follow, interrupt_flag()))
        if (!watch_found(search, &code))
            return code;
    return EXIT_INTERRUPTED;
}

static int watch_selected(struct watcher *watcher)
{
    struct search search = {.watcher = watcher};
    struct fault *fault = &watcher->watch.fault;
    const struct subject subject = {.verb = "find", .name = "processes"};
    const struct selector selector = choose_selector(watcher->options);
    fault_code rc = follow_open(&search.follow, &selector, fault);
    int code = rc == FAULT_NONE ? watch_search(&search) : message_fault(&subject, fault);

    follow_close(&search.follow);
    return code;
}

/* ---- the verb ---- */

static int perform_watch(struct watcher *watcher, pid_t pid)
{
    const struct subject subject = {.pid = pid, .verb = "watch process"};
    struct fault *fault = &watcher->watch.fault;

    if (check_directory(watcher->options->output, fault) != FAULT_NONE)
        return message_fault(&subject, fault);
    if (watcher->options->dry_run)
        return finish_watch(watcher, describe_watch(watcher));
    return pid ? watch_pid(watcher) : watch_selected(watcher);
}

/* The address of the watcher must not change afterwards. */
static void prepare_watch(struct watcher *watcher, const struct options *options, pid_t pid)
{
    struct watching *watch = &watcher->watch;

    watcher->options = options;
    watcher->quiet = *options;
    watcher->quiet.quiet = true;
    job_init(&watcher->job, &watch->attachment, &watcher->quiet, "watch process");
    watch->request = (struct watch_request){.attach = job_request(&watcher->job, pid),
                                            .directory = options->output,
                                            .most = options->once ? 1 : options->watch.max,
                                            .keep = options->keep,
                                            .on = options->watch.on,
                                            .report = report_event,
                                            .ctx = watcher};
    capture_init(&watch->capture);
}

static int watch_main(const struct options *options, pid_t pid)
{
    struct watcher watcher = {0};
    int code;

    prepare_watch(&watcher, options, pid);
    if (!take_rules(&watcher.watch.rules, &options->watch))
        return EXIT_USAGE;
    reserve_heap();
    if (!watching_reserve(&watcher.watch)) {
        message("out of memory for a profile");
        return EXIT_INTERNAL;
    }
    code = perform_watch(&watcher, pid);
    capture_free(&watcher.watch.capture);
    return code;
}

const struct verb verb_watch = {
    .name = "watch",
    .summary = "write a profile at a size, near a memory limit, or under pressure",
    .synopses = {"[options] PID --when RULE... -o DIR", "[options] -n NAME --when RULE... -o DIR"},
    .takes = TAKES_OUTPUT | TAKES_RULES | TAKES_ONE | TAKES_HOOKS,
    .intro = "Waits until a rule holds, then streams a profile to a new file in DIR:\n"
             "NAME-PID-TIME-RSS.watch.heap, written completely or not at all. Prints its path\n"
             "on stdout, and one line for each event on stderr. Rules must be quoted, because\n"
             "the shell interprets > itself:\n"
             "\n"
             "  'rss>2G' 'rss>80%'     resident memory; a percentage is of the smallest memory\n"
             "                         limit of its cgroup and the cgroups above it, else of\n"
             "                         the memory of the machine\n"
             "  'cgroup>85%'           use of the cgroup nearest to its limit, else of the\n"
             "                         machine, without inactive file pages; 'cgroup>2G': use\n"
             "                         of its own cgroup\n"
             "  'psi.some>20%/10s'     part of a window in which some task of its cgroup, else\n"
             "                         of the host, waited for memory; psi.full: all tasks\n"
             "  'grow>20%/10m'         growth of the resident memory above its minimum in the\n"
             "                         window; also 'grow>1G/1h'. The process must have lived\n"
             "                         for a whole window\n",
    .notes = "The exit code is 0 after --max profiles, 3 if the process ended, 130 after\n"
             "SIGTERM or Ctrl-C, 6 if the process cannot profile, and 9 if DIR cannot be\n"
             "written. With -n, --container or --cgroup it waits for the next process instead\n"
             "of exiting with 0, 3 or 6.\n",
    .options =
        {
            {"output", "DIR", "write the profiles to this directory (required)"},
            {"keep", NULL,
             "keep the last N profiles of this process name in DIR; remove older ones that watch "
             "wrote (default 10)"},
            {"json", NULL, "print one JSON object a line on stdout, for each event"},
        },
    .calls =
        {
            "mallctl version, config.prof, opt.prof, prof.active, ... (read), at the start",
            "mallctl prof.active (write), with --on, at the start and at the end",
            "mallctl arenas.narenas, opt.narenas, arena.<each>.extent_hooks (read)",
            "mallctl prof.dump, streamed, each time that a rule fires",
        },
    .run = watch_main,
};
