/* jeattach watch */
#include "cli/faults.h"
#include "cli/verbs/verbs.h"
#include "run/filename.h"
#include "run/follow.h"
#include "run/interrupt.h"
#include "run/output.h"
#include "run/reserve.h"
#include "run/targets.h"
#include "run/watching.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SECOND_NS ((uint64_t)1000000000)

/* ---- what is asked for ---- */

static bool take_rules(struct watching *watch)
{
    const struct watch_options *given = &watch->options->watch;

    watch->rules.count = given->rule_count;
    watch->rules.cooldown_ns = given->cooldown_ns;
    for (size_t i = 0; i < given->rule_count; i++) {
        const char *wrong = rule_parse(&watch->rules.list[i], given->rules[i]);
        char clean[64];
        if (!wrong)
            continue;
        message("'%s' is no rule: %s", message_clean(given->rules[i], clean, sizeof clean), wrong);
        fprintf(stderr, "  fix:   jeattach watch --help\n");
        return false;
    }
    return true;
}

/* The directory is there, and takes a file. */
static fault_code check_directory(const struct watching *watch, struct fault *fault)
{
    const char *directory = watch->options->output;
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

/* ---- one process, by its pid ---- */

static fault_code describe(struct watching *watch, pid_t pid)
{
    fault_code rc =
        attachment_open(&watch->attachment, &watch->quiet, pid, "watch process", &watch->fault);

    watch->attached = true;
    if (rc == FAULT_NONE)
        rc = attachment_describe(&watch->attachment, verb_watch.calls, &watch->fault);
    return rc;
}

static int tell_stopped(struct watching *watch, const char *cause, int code)
{
    struct event event = watching_event(watch, EVENT_STOPPED);
    enum course course;
    int closed;

    event.cause = cause;
    course = watching_tell(watch, &event, COURSE_ON);
    closed = watching_close(watch, course == COURSE_FAILED ? watch->fault.code : FAULT_NONE);
    return closed != EXIT_DONE ? closed : code;
}

static enum course tell_ended(struct watching *watch)
{
    struct event event = watching_event(watch, EVENT_ENDED);
    enum course course = watching_tell(watch, &event, COURSE_ON);

    watching_leave(watch);
    return course;
}

/* What has come of it ends the watch as well. Returns the exit code. */
static int end_with(struct watching *watch, enum course course)
{
    switch (course) {
    case COURSE_FULL:
        return tell_stopped(watch, "it has all its profiles", EXIT_DONE);
    case COURSE_INTERRUPTED:
        return tell_stopped(watch, "interrupted", EXIT_INTERRUPTED);
    case COURSE_ENDED:
        return tell_ended(watch) == COURSE_FAILED ? EXIT_OUTPUT : EXIT_GONE;
    default:
        return watching_close(watch, watch->fault.code);
    }
}

/* False: interrupted. */
static bool pause_for(uint64_t ns)
{
    const struct pause pause = {.until = clock_now() + ns, .interrupted = interrupt_flag()};

    return pause_until(&pause) != PAUSE_INTERRUPTED;
}

static int watch_pid(struct watching *watch, pid_t pid)
{
    enum course course;

    do {
        fault_code rc = watching_open(watch, pid);
        if (rc != FAULT_NONE)
            return watching_close(watch, rc);
        course = watching_run(watch);
        if (course == COURSE_EXECED) {
            watching_leave(watch);
            (void)pause_for(SECOND_NS); /* it is being loaded */
        }
    } while (course == COURSE_EXECED);
    return end_with(watch, course);
}

/* ---- whatever process has the name ---- */

struct search {
    struct watching *watch;
    struct follow follow;
    struct target_pin former; /* by what it was, its pidfd is not used */
    unsigned failures;        /* in a row, to open the same process */
    bool patient;             /* what fails may go well later: it is being started */
};

static enum course tell_waiting(struct search *search)
{
    const struct options *options = search->watch->options;
    const char *name = options->name        ? options->name
                       : options->container ? options->container
                                            : options->cgroup;
    const struct event event = {.kind = EVENT_WAITING, .name = name ? name : "a process"};

    search->patient = true;
    return watching_tell(search->watch, &event, COURSE_ON);
}

/* The watch goes on; the process is looked at again later, or its successor is waited for. */
static enum course try_later(struct search *search, fault_code rc)
{
    struct watching *watch = search->watch;
    uint64_t pause = search->failures < 6 ? SECOND_NS << search->failures : 60 * SECOND_NS;
    enum course course = COURSE_ON;

    if (fault_is_gone(rc)) {
        watching_leave(watch);
        return pause_for(SECOND_NS) ? COURSE_ON : COURSE_INTERRUPTED;
    }
    search->follow.done = fault_is_permanent(rc);
    search->failures++;
    course = watching_tell_failed(watch, 0, search->follow.done ? 0 : pause);
    if (watch->sampling.owed)
        (void)watching_close(watch, FAULT_NONE);
    else
        watching_leave(watch);
    if (course == COURSE_ON && !search->follow.done && !pause_for(pause))
        course = COURSE_INTERRUPTED;
    return course;
}

static void take_found(struct search *search)
{
    const struct target_pin *pin = &search->follow.pin;

    search->watch->quiet.pin = pin;
    if (pin->pid != search->former.pid || pin->start != search->former.start) {
        search->watch->made = 0;
        search->failures = 0;
    }
    search->former = *pin;
}

/* Sets *code and returns false when the watch is over. */
static bool watch_found(struct search *search, int *code)
{
    struct watching *watch = search->watch;
    fault_code rc;
    enum course course;

    take_found(search);
    rc = watching_open(watch, search->follow.pin.pid);
    if (rc != FAULT_NONE && (!search->patient || rc == FAULT_INTERRUPTED)) {
        *code = watching_close(watch, rc);
        return false;
    }
    course = rc == FAULT_NONE ? watching_run(watch) : try_later(search, rc);
    if (rc == FAULT_NONE && course == COURSE_ENDED)
        course = tell_ended(watch) == COURSE_ON ? tell_waiting(search) : COURSE_FAILED;
    else if (course == COURSE_EXECED)
        watching_leave(watch);
    else if (course == COURSE_FULL && !watch->options->once) {
        search->follow.done = true;
        *code = tell_stopped(watch, "it has all its profiles", EXIT_DONE);
        return *code == EXIT_DONE && tell_waiting(search) == COURSE_ON;
    }
    search->patient = true;
    if (course == COURSE_ON || course == COURSE_EXECED)
        return true;
    *code = end_with(watch, course);
    return false;
}

/* What is wrong with the words is told as every verb tells it; EXIT_DONE: nothing. */
static int look_first(struct search *search)
{
    struct targets targets;
    size_t count;
    enum follow_end end = follow_look(&search->follow, &count, &search->watch->fault);
    int code;

    if (end == FOLLOW_FOUND)
        return EXIT_DONE;
    if (end == FOLLOW_WAITING && count == 0)
        return tell_waiting(search) == COURSE_ON ? EXIT_DONE : EXIT_OUTPUT;
    code = targets_find(&targets, search->watch->options);
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

static int watch_selected(struct watching *watch)
{
    struct search search = {.watch = watch};
    const struct subject subject = {.verb = "find", .name = "processes"};
    fault_code rc = follow_open(&search.follow, watch->options, &watch->fault);
    int code = rc == FAULT_NONE ? watch_search(&search) : message_fault(&subject, &watch->fault);

    follow_close(&search.follow);
    return code;
}

/* ---- the whole of it ---- */

static int run(struct watching *watch, pid_t pid)
{
    const struct subject subject = {.pid = pid, .verb = "watch process"};

    if (check_directory(watch, &watch->fault) != FAULT_NONE)
        return message_fault(&subject, &watch->fault);
    if (watch->options->dry_run)
        return watching_close(watch, describe(watch, pid));
    return pid ? watch_pid(watch, pid) : watch_selected(watch);
}

static int watch_main(const struct options *options, pid_t pid)
{
    struct watching watch = {.options = options, .quiet = *options};
    int code;

    watch.quiet.quiet = true;
    watch.start.most = options->once ? 1 : options->watch.max;
    watch.start.directory = options->output;
    if (!take_rules(&watch))
        return EXIT_USAGE;
    reserve_heap();
    capture_init(&watch.capture);
    if (!watching_reserve(&watch)) {
        message("there is no memory for a profile");
        return EXIT_INTERNAL;
    }
    code = run(&watch, pid);
    capture_free(&watch.capture);
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
