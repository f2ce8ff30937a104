/* jeattach on, jeattach off */
#include "base/units.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/thread_view.h"
#include "cli/verbs/verbs.h"
#include "run/access.h"
#include "run/activating.h"
#include "run/peers.h"

#include <stdio.h>

struct change {
    const struct job *job;
    bool active; /* the new value */
    int partial; /* exit code, EXIT_DONE unless only a part was done */
    struct access_switched switched;
    struct activating activating; /* which threads sample, where the new value is true */
};

static void json_activation(const struct activating *activating, struct json *json)
{
    const struct activation *activation = &activating->activation;

    thread_counts_json(activating->counts, json);
    JSON_MEMBERS(
        json, NUMBER("threads_woken", activation->woken),
        NUMBER("threads_switched_on", activation->switched_on),
        NUMBER("threads_unsure", activation->unsure), NUMBER("threads_missed", activation->missed),
        NUMBER("threads_stopped", activation->visited), FLAG("did_reset", activation->did_reset),
        NUMBER("threads_longest_held_ns", activation->longest_ns),
        FLAG("thread_active_init_repaired", activating->init == INIT_SWITCHED));
}

static void print_switch_json(const struct change *change)
{
    const struct attachment *attachment = change->job->attachment;
    struct json json;

    attachment_json_begin(attachment, &json);
    JSON_MEMBERS(&json, FLAG("old", prof_is_active(&change->switched.former)),
                 FLAG("new", change->active),
                 TEXT("way", change->switched.in_memory ? "memory" : "call"));
    if (change->active)
        json_activation(&change->activating, &json);
    attachment_json(attachment, &json);
    json_end(&json);
}

/* With several processes, each line begins with the one that it is about. */
static void print_process(const struct change *change)
{
    char clean[PROCESS_TEXT];

    if (change->job->options->pid_count > 1)
        printf("%s ", job_process(change->job, clean));
}

/* "threads: 8 of 8 sample (1 has not allocated yet); 6 had stopped ..." */
static void print_activation(const struct change *change)
{
    const struct activating *activating = &change->activating;
    const struct activation *activation = &activating->activation;
    char text[THREAD_COUNTS_TEXT], version[VERSION_TEXT_MAX];

    print_process(change);
    printf("threads: %s",
           thread_counts_text(activating->counts, true, activating->unknown_why, text));
    if (activation->woken)
        printf("; %zu had stopped while profiling was not active (jemalloc %s)", activation->woken,
               message_clean(change->switched.former.build.text, version, sizeof version));
    if (activation->switched_on)
        printf("; %zu %s off (thread.prof.active)", activation->switched_on,
               activation->switched_on == 1 ? "was" : "were");
    if (activation->did_reset)
        printf("; all samples taken before were dropped (prof.reset)");
    printf("\n");
    if (activating->init != INIT_SWITCHED)
        return;
    print_process(change);
    printf("prof.thread_active_init: false -> true\n");
}

static bool is_changed(const struct change *change)
{
    return prof_is_active(&change->switched.former) != change->active;
}

/* "redis-server[4242] one byte written in its memory; no thread was stopped" */
static void print_in_memory(const struct change *change)
{
    const struct activation *activation = &change->activating.activation;
    const bool one = activation->visited == 1;
    char clean[PROCESS_TEXT], longest[UNITS_TEXT], stops[96] = "no thread was stopped";

    if (change->job->options->quiet)
        return;
    fflush(stdout);
    if (activation->visited)
        snprintf(stops, sizeof stops, "%zu thread%s stopped%s %s", activation->visited,
                 one ? " was" : "s were", one ? " for" : ", each for at most",
                 units_duration(activation->longest_ns, longest));
    message("%s one byte %s its memory; %s", job_process(change->job, clean),
            is_changed(change) ? "written in" : "read from", stops);
}

static void name_missed_threads(const struct change *change)
{
    const struct activation *activation = &change->activating.activation;
    const struct subject subject = job_subject(change->job);
    char name[64], text[512];

    for (size_t i = 0; i < activation->missed && i < ACTIVATION_NAMED; i++) {
        const struct activation_missed *missed = &activation->first_missed[i];
        const fault_code code = missed->fault.code;
        const char *cause = "timed out before its turn";

        if (code != FAULT_NONE && code != FAULT_INTERRUPTED)
            cause = message_cause(&subject, &missed->fault, text, sizeof text);
        else if (change->activating.interrupted)
            cause = "interrupted before its turn";
        message("thread %d (%s) does not sample yet: %s", (int)missed->tid,
                message_clean(missed->comm, name, sizeof name), cause);
    }
    if (activation->missed > ACTIVATION_NAMED)
        message("and %zu more threads", activation->missed - ACTIVATION_NAMED);
}

/* What a second command would do about the threads that do not sample. */
static void print_remedies(const struct change *change)
{
    const struct activating *activating = &change->activating;
    const size_t off = activating->counts[THREAD_OFF];
    const int pid = (int)change->job->attachment->request.pid;
    const bool repairs = change->job->options->repair;

    if (activating->activation.missed)
        message("to reach them, run jeattach on %s%d again, with a longer --timeout",
                repairs ? "--repair " : "", pid);
    if (activating->counts[THREAD_ASLEEP] && change->job->options->no_call)
        message("to make the others sample, run jeattach on %s%d without --no-call: each of them "
                "is stopped once",
                repairs ? "--repair " : "", pid);
    if (activating->activation.unsure)
        message("%zu threads sample only if they have not sampled before, which a build without "
                "statistics does not show; jeattach on --allow reset %d makes all of them sample, "
                "and drops all samples taken so far",
                activating->activation.unsure, pid);
    if (off && !repairs)
        message("thread.prof.active is false in %zu thread%s; jeattach on --repair %d switches "
                "%s on",
                off, off == 1 ? "" : "s", pid, off == 1 ? "it" : "them");
    if (activating->init == INIT_FALSE)
        message("threads that start from now on do not sample (prof.thread_active_init is false)"
                "; jeattach on --repair %d changes that",
                pid);
}

/* Reports threads that do not sample yet. Returns the exit code. */
static int tell_missed(const struct change *change)
{
    const struct activating *activating = &change->activating;

    if (!change->active)
        return EXIT_DONE;
    if (activating->activation.missed)
        name_missed_threads(change);
    print_remedies(change);
    if (activating->interrupted)
        return EXIT_INTERRUPTED;
    return activating->activation.missed || activating->counts[THREAD_ASLEEP] ? EXIT_NO_SAFE_POINT
                                                                              : EXIT_DONE;
}

/* After the byte was written: that no thread can be visited is not that nothing was done. */
static void tell_unvisited(struct change *change, const struct fault *fault)
{
    const struct subject subject = job_subject(change->job);
    struct fault_words words;

    message_words(&subject, fault, &words);
    message("prof.active is true, but threads that do not sample yet were not visited: %s",
            words.cause);
    change->partial = words.exit;
}

/* A run that has switched it on switches it off at its end, whatever `on` has said meanwhile. */
static void print_other_run(const struct change *change)
{
    const struct target *target = &change->job->attachment->target;

    if (change->job->options->quiet || !peers_sample(target))
        return;
    fflush(stdout);
    if (!change->active)
        message("another run of jeattach samples this process, and gets no more samples; watch "
                "--on switches profiling on again");
    else if (!is_changed(change))
        message("another run of jeattach samples this process, and switches profiling off at its "
                "end if it has switched it on");
}

static void print_change(const struct change *change)
{
    const char *former = prof_is_active(&change->switched.former) ? "true" : "false";

    if (change->job->options->json) {
        print_switch_json(change);
    } else {
        print_process(change);
        if (is_changed(change))
            printf("prof.active: %s -> %s\n", former, change->active ? "true" : "false");
        else
            printf("prof.active: %s (unchanged)\n", former);
        if (change->active)
            print_activation(change);
    }
    print_other_run(change);
}

static fault_code perform_switch(struct job *job, void *ctx, struct fault *fault)
{
    struct change *change = ctx;
    struct attachment *attachment = job->attachment;
    fault_code rc = access_switch(attachment, change->active, &change->switched, fault);

    change->job = job;
    if (rc != FAULT_NONE)
        return rc;
    if (change->active)
        rc = activating_run(attachment, &change->switched.former, &change->activating, fault);
    print_change(change);
    if (change->switched.in_memory)
        print_in_memory(change);
    if (rc == FAULT_NONE)
        change->partial = tell_missed(change);
    else if (change->switched.in_memory && !fault_is_gone(rc)) {
        tell_unvisited(change, fault);
        rc = FAULT_NONE;
    }
    return rc;
}

static int switch_to(const struct options *options, pid_t pid, bool active)
{
    struct change change = {.active = active, .partial = EXIT_DONE};
    int code =
        job_run(options, pid, JOB_AS_ASKED,
                active ? "switch profiling on in process" : "switch profiling off in process",
                perform_switch, &change);

    return code != EXIT_DONE ? code : change.partial;
}

static int on_main(const struct options *options, pid_t pid)
{
    return switch_to(options, pid, true);
}

static int off_main(const struct options *options, pid_t pid)
{
    return switch_to(options, pid, false);
}

const struct verb verb_on = {
    .name = "on",
    .summary = "start sampling allocations (prof.active)",
    .synopses = {"[options] PROCESS..."},
    .examples = {{"jeattach on 4242", "start sampling"},
                 {"jeattach on redis-server --all", "in all processes of that name"}},
    .takes = TAKES_REPAIR | TAKES_ALLOW_RESET | TAKES_HOOKS | TAKES_WAY | TAKES_CALL,
    .intro = "Sets prof.active to true, reads it back, and prints the old and the new value.\n"
             "Repeating it is harmless. Allocations made from now on are sampled; existing\n"
             "ones are not seen. The process must have been started with prof:true.\n"
             "\n"
             "prof.active is one byte. Where its address is certain, it is written in the\n"
             "memory of the process: no call is made and no thread is stopped, so it works on\n"
             "a process that is stopped, frozen or traced, too. Elsewhere a thread of the\n"
             "process calls jemalloc.\n"
             "\n"
             "Then shows how many of the threads sample, as their own memory tells. Threads of\n"
             "jemalloc 5.2.0 and 5.2.1 that allocated while prof.active was false do not: each\n"
             "of them is stopped once and gets a new count of bytes until its next sample; the\n"
             "exit code is 7 if some could not be reached. Threads in which\n"
             "thread.prof.active is false do not sample either: --repair switches them on.\n",
    .options =
        {
            {"allow", NULL,
             "hooks: make the call even if functions of the application may run in it (extent "
             "hooks "
             "of its arenas); if one takes a lock that the stopped thread owns, both wait forever. "
             "reset: if such a version was built without statistics, call prof.reset, which drops "
             "all samples taken so far"},
            {"no-call", NULL,
             "make no call, and stop nothing but the threads that --repair visits; fail if that "
             "is not possible"},
        },
    .run = on_main,
};

const struct verb verb_off = {
    .name = "off",
    .summary = "stop sampling allocations",
    .synopses = {"[options] PROCESS..."},
    .examples = {{"jeattach off 4242", "stop sampling"},
                 {"jeattach off --all", "in each process where it is on"}},
    .takes = TAKES_WAY | TAKES_CALL | TAKES_SAMPLING,
    .intro = "Sets prof.active to false, reads it back, and prints the old and the new value:\n"
             "like on, in the memory of the process or by a call. Samples taken so far stay in\n"
             "the profile. With --all and -s it works on the processes in which profiling is\n"
             "on, and touches no other.\n",
    .run = off_main,
};
