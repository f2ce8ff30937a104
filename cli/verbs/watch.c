/* jeattach watch */
#include "run/watch.h"
#include "cli/choose.h"
#include "cli/job.h"
#include "cli/output/watch_event.h"
#include "cli/rule_text.h"
#include "cli/verbs/verbs.h"
#include "run/reserve.h"

#include <stdio.h>

enum { PROFILES_DEFAULT = 3 };

struct watcher {
    const struct options *options;
    struct options quiet; /* for the job: events are printed instead of its messages */
    struct job job;
    struct watch watch;
    int code; /* of the last process that was finished */
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

/* ---- events ---- */

static fault_code report_event(void *ctx, const struct watch_event *event, struct fault *fault)
{
    const struct watcher *watcher = ctx;
    const struct subject subject = job_subject(&watcher->job);
    const char *cause = NULL;
    char text[512];

    if (event->fault)
        cause = message_cause(&subject, event->fault, text, sizeof text);
    else if (event->kind == EVENT_STOPPED)
        cause = event->course == COURSE_FULL ? "maximum reached" : "interrupted";
    return watch_event_print(watcher->options, event, cause, fault);
}

/* ---- the end of one process ---- */

static bool finish_watched(void *ctx, fault_code rc)
{
    struct watcher *watcher = ctx;
    struct watching *watching = &watcher->watch.watching;

    watcher->code = job_finish_sampling(&watcher->job, &watching->sampling, rc, &watching->fault);
    return watcher->code == EXIT_DONE;
}

static void leave_watched(void *ctx)
{
    struct watcher *watcher = ctx;

    (void)job_finish(&watcher->job, FAULT_NONE, NULL);
}

/* Returns the exit code for the end of the watch. */
static int watch_code(const struct watcher *watcher, enum course course)
{
    switch (course) {
    case COURSE_FULL:
        return EXIT_DONE;
    case COURSE_INTERRUPTED:
        return EXIT_INTERRUPTED;
    case COURSE_ENDED:
        return EXIT_GONE;
    default: /* if no message has set the code, stdout takes no more */
        return watcher->code == EXIT_DONE ? EXIT_OUTPUT : watcher->code;
    }
}

/* ---- the verb ---- */

/* Searches once, so that wrong options are reported as by every verb. EXIT_DONE: none. */
static int look_first(struct watcher *watcher)
{
    struct watch *watch = &watcher->watch;
    struct targets targets;
    size_t count;
    enum follow_end end = follow_look(&watch->follow, &count, &watch->watching.fault);
    int code;

    if (end == FOLLOW_FOUND)
        return EXIT_DONE;
    if (end == FOLLOW_WAITING && count == 0)
        return watch_report_waiting(watch) == COURSE_ON ? EXIT_DONE : EXIT_OUTPUT;
    code = choose_targets(&targets, watcher->options, watcher->options->output ? 0 : TAKES_ANY);
    targets_free(&targets);
    return code;
}

static int perform_watch(struct watcher *watcher, pid_t pid)
{
    const struct subject subject = {.pid = pid, .verb = "watch process"},
                         search = {.verb = "find", .name = "processes"};
    const struct selector selector = choose_selector(watcher->options);
    struct watch *watch = &watcher->watch;
    struct fault *fault = &watch->watching.fault;
    int code;

    if (watcher->options->output &&
        watch_check_directory(watcher->options->output, fault) != FAULT_NONE)
        return message_fault(&subject, fault);
    if (pid)
        return watch_code(watcher, watch_process(watch));
    if (follow_open(&watch->follow, &selector, fault) == FAULT_NONE) {
        watch->follow.any_allocator = !watcher->options->output;
        code = look_first(watcher);
    } else {
        code = message_fault(&search, fault);
    }
    if (code == EXIT_DONE)
        code = watch_code(watcher, watch_matching(watch));
    follow_close(&watch->follow);
    return code;
}

static int watch_main(const struct options *options, pid_t pid)
{
    struct watcher watcher = {.code = EXIT_DONE, .options = options, .quiet = *options};
    struct watching *watching = &watcher.watch.watching;
    const char *wanted[] = {options->name, options->container, options->cgroup, "a process"};
    int code;

    watcher.quiet.quiet = true;
    job_init(&watcher.job, &watching->attachment, &watcher.quiet, "watch process");
    for (size_t i = 0; !watcher.watch.wanted; i++)
        watcher.watch.wanted = wanted[i];
    watcher.watch.endless = !options->once;
    watching->request = (struct watch_request){.attach = job_request(&watcher.job, pid),
                                               .directory = options->output,
                                               .command = options->watch.command,
                                               .most = options->once    ? 1
                                                       : options->count ? options->count
                                                                        : PROFILES_DEFAULT,
                                               .mode = options->mode,
                                               .keep = options->keep,
                                               .on = options->watch.on,
                                               .report = report_event,
                                               .finish = finish_watched,
                                               .leave = leave_watched,
                                               .ctx = &watcher};
    capture_init(&watching->capture);
    last_profile_init(&watching->last);
    if (!take_rules(&watching->rules, &options->watch))
        return EXIT_USAGE;
    reserve_heap();
    if (!watching_reserve(watching)) {
        message("out of memory for a profile");
        return EXIT_INTERNAL;
    }
    code = perform_watch(&watcher, pid);
    capture_free(&watching->capture);
    last_profile_free(&watching->last);
    return code;
}

const struct verb verb_watch = {
    .name = "watch",
    .summary = "write a profile at a size, near a memory limit, or under pressure",
    .synopses = {"[options] PROCESS --when RULE... -o DIR",
                 "[options] PROCESS --when RULE... --exec COMMAND"},
    .examples = {{"jeattach watch 4242 --when 'rss>8G' --once -o heaps", "a profile at 8 GiB"},
                 {"jeattach watch app --when 'cgroup>90%' --on -o heaps", "near the limit"},
                 {"jeattach watch 4242 --when 'rss>80%' --exec ./page-me", "an alarm"}},
    .takes = TAKES_OUTPUT | TAKES_RULES | TAKES_ONE | TAKES_HOOKS | TAKES_WAY | TAKES_CALL,
    .intro = "Waits until a rule holds, then reads a profile out of the memory of the process,\n"
             "or, where that is not possible, makes a call for it, and writes a file in DIR:\n"
             "NAME-PID-TIME-RSS.watch.heap, written completely or not at all. With --exec it\n"
             "also starts a command; without -o only that, for any process. Prints the path\n"
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
    .notes = "A process that ends leaves the last profile that was read of it, which takes a\n"
             "hundredth of the time at most: NAME-PID-TIME-RSS-cut-short.watch.heap.\n"
             "\n"
             "The exit code is 0 after --count profiles, 3 if the process ended, 130 after\n"
             "SIGTERM or Ctrl-C, 6 if the process cannot profile, and 9 if DIR cannot be\n"
             "written. With -n, --container or --cgroup it waits for the next process instead\n"
             "of exiting with 0, 3 or 6.\n",
    .options =
        {
            {"output", "DIR", "write the profiles to this directory, which is made if needed"},
            {"count", NULL,
             "write at most N profiles, or raise N alarms, of one process (default 3)"},
            {"keep", NULL,
             "keep the last N profiles of this process name and user in DIR; remove older ones "
             "that "
             "watch wrote (default 10)"},
            {"json", NULL, "print one JSON object a line on stdout, for each event"},
        },
    .run = watch_main,
};
