#include "cli/job.h"
#include "base/units.h"
#include "cli/faults.h"
#include "cli/notes.h"
#include "cli/output/progress.h"
#include "cli/output/stdout.h"
#include "inject/syscalls.h"
#include "run/access.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* ---- a run's user ---- */

const char *job_process(const struct job *job, char out[PROCESS_TEXT])
{
    const struct target *target = &job->attachment->target;

    return message_process(target->stat.comm, (int)target->pid, out);
}

struct subject job_subject(const struct job *job)
{
    const struct attachment *attachment = job->attachment;
    const char *instead = job->instead ? job->instead
                                       : "look at it by jeattach stats or jeattach dump -o, which "
                                         "need no call";

    if (job->options->call) /* the way without an option that stops a thread */
        instead = "omit --call, which is not needed here";

    if (job->options->core)
        return (struct subject){.name = job->options->core,
                                .verb = job->verb,
                                .variable = attachment->variable,
                                .json = job->options->json,
                                .core = true};
    return (struct subject){
        .pid = attachment->request.pid,
        .ns_pid = attachment->opened ? target_ns_pid(&attachment->target) : 0,
        .name = attachment->opened ? attachment->target.stat.comm : NULL,
        .verb = job->verb,
        .variable = attachment->variable,
        .instead = instead,
        .json = job->options->json && !options_to_stdout(job->options),
    };
}

static int print_job_stalled(void *ctx, const struct fault *fault)
{
    const struct subject subject = job_subject(ctx);
    int code = message_fault(&subject, fault);

    fflush(stdout);
    return code;
}

static const char *format_farewell(void *ctx, pid_t pid)
{
    static char farewell[160];

    (void)ctx;
    snprintf(farewell, sizeof farewell,
             "\njeattach: exited at once: prof.active may not be restored; to check it: jeattach "
             "status %d; to switch it off: jeattach off %d\n",
             (int)pid, (int)pid);
    return farewell;
}

/* Rounds to whole seconds: a progress line does not change more often. */
static uint64_t to_seconds(uint64_t ns)
{
    const uint64_t second = 1000000000;

    return (ns + second / 2) / second * second;
}

static void print_progress(void *ctx, const struct run_progress *progress)
{
    const struct job *job = ctx;
    static const char *const doings[] = {
        [RUN_RECORDING] = "recording", [RUN_SETTLING] = "settling", [RUN_GROWING] = "watching"};
    char name[PROCESS_TEXT], rss[UNITS_TEXT], done[UNITS_TEXT], whole[UNITS_TEXT];
    const char *doing;

    if (!progress) {
        progress_clear(job->options);
        return;
    }
    doing = doings[progress->activity];
    job_process(job, name);
    units_bytes((double)progress->rss_bytes, rss);
    units_duration(to_seconds(progress->done_ns), done);
    if (progress->total_ns == UINT64_MAX)
        progress_show(job->options, "%s %s: %s, RSS %s (Ctrl-C to end)", doing, name, done, rss);
    else
        progress_show(job->options, "%s %s: %s of %s, RSS %s (Ctrl-C to end now)", doing, name,
                      done, units_duration(to_seconds(progress->total_ns), whole), rss);
}

/* ---- the beginning ---- */

void job_init(struct job *job, struct attachment *attachment, const struct options *options,
              const char *verb)
{
    *job = (struct job){.options = options,
                        .verb = verb,
                        .attachment = attachment,
                        .events = {.ctx = job,
                                   .note = notes_print,
                                   .progress = print_progress,
                                   .stalled = print_job_stalled,
                                   .farewell = format_farewell}};
}

struct attach_request job_request(const struct job *job, pid_t pid)
{
    const struct options *options = job->options;
    const bool calls = options->call || options->thread; /* only a call needs a thread */

    return (struct attach_request){.pid = pid,
                                   .pin = options->pin,
                                   .thread = options->thread,
                                   .instance = (size_t)options->instance,
                                   .timeout_ns = options->timeout_ns,
                                   .way = options->no_call ? WAY_MEMORY
                                          : calls          ? WAY_CALL
                                                           : WAY_DEFAULT,
                                   .force_hooks = options->allow & ALLOW_HOOKS,
                                   .repairs = options->repair,
                                   .may_reset = options->allow & ALLOW_RESET,
                                   .events = &job->events};
}

struct attach_request job_look_request(const struct job *job, pid_t pid)
{
    struct attach_request request = job_request(job, pid);

    if (request.way == WAY_CALL)
        request.way = WAY_DEFAULT;
    request.every = true; /* the memory of each jemalloc is a part of its own */
    return request;
}

fault_code job_open_profile(struct job *job, struct attachment *attachment,
                            const struct options *options, pid_t pid, const char *verb,
                            struct fault *fault)
{
    struct attach_request request;

    job_init(job, attachment, options, verb);
    request = job_request(job, pid);
    return access_open(attachment, &request, fault);
}

/* ---- how the target was stopped ---- */

static const char *plural(unsigned n)
{
    return n == 1 ? "" : "s";
}

/* "libc.so.6+0x10e0ad": relative to the file, as in objdump. */
static const char *name_place(const struct attachment *attachment, remote_addr pc, char *out,
                              size_t size)
{
    const struct module *module = modules_at(&attachment->modules, pc);
    char clean[64];

    if (module)
        snprintf(out, size, "%s+%#llx", message_clean(module_name(module), clean, sizeof clean),
                 (unsigned long long)(pc - module->start));
    else
        snprintf(out, size, "%#llx", (unsigned long long)pc);
    return out;
}

static void print_search(const struct job *job)
{
    const struct attachment *attachment = job->attachment;
    const struct injection_summary *summary = &attachment->caller.injection.summary;
    char took[UNITS_TEXT], place[96];

    units_duration(summary->search_ns, took);
    name_place(attachment, summary->pc, place, sizeof place);
    if (summary->safe.frames)
        message("thread %d was at a safe point, %s: none of its %u frames is in jemalloc; found "
                "after %u stop%s, %s",
                (int)summary->tid, place, summary->safe.frames, summary->attempts,
                plural(summary->attempts), took);
    else
        message("thread %d was at a safe point, %s: no return address into jemalloc on %zu bytes "
                "of stack; "
                "found after %u stop%s, %s",
                (int)summary->tid, place, summary->safe.scanned, summary->attempts,
                plural(summary->attempts), took);
}

static void print_warnings(const struct attachment *attachment)
{
    const struct hooks_consent *hooks = &attachment->caller.hooks;
    const uint64_t reads = attachment->memory.left_out;
    char clean[sizeof hooks->used.what], swap[UNITS_TEXT];

    if (hooks->used.function)
        message("warning: allowed by --allow hooks: %s; if it waits for a lock that the "
                "stopped thread owns, both wait forever",
                message_clean(hooks->used.what, clean, sizeof clean));
    if (reads)
        message("warning: %s of the process is in swap, and its memory limit leaves too little to "
                "bring that back: %llu read%s left out, and what is shown may lack it",
                units_bytes((double)attachment->target.status.swap_bytes, swap),
                (unsigned long long)reads, reads == 1 ? " was" : "s were");
}

/* "redis-server[4242] profile read from memory in 3.1 ms: 320 stacks, 5 threads; ..." */
static void print_read(const struct job *job)
{
    const struct attachment *attachment = job->attachment;
    const struct read_summary *read = &attachment->read;
    char clean[PROCESS_TEXT], took[UNITS_TEXT], times[48] = "", unsettled[64] = "";

    units_duration(read->longest_ns, took);
    if (read->count > 1)
        snprintf(times, sizeof times, "%u times, ", read->count);
    if (read->last.unsettled)
        snprintf(unsettled, sizeof unsettled, ", %zu left out that changed during the read",
                 read->last.unsettled);
    message("%s profile read from memory %sin %s%s: %zu stack%s%s, %zu thread%s%s",
            job_process(job, clean), times, took, read->count > 1 ? " at most" : "",
            read->last.stacks, read->last.stacks == 1 ? "" : "s", unsettled, read->last.threads,
            read->last.threads == 1 ? "" : "s",
            attachment->caller.holds ? "" : "; no thread was stopped");
}

static void print_closing(const struct job *job)
{
    const struct attachment *attachment = job->attachment;
    const struct caller *caller = &attachment->caller;
    /* of the last call, or of the last attempt if there was no call */
    const struct injection_summary *summary =
        caller->injection.summary.tid ? &caller->injection.summary : &caller->last;
    const char *name, *waits_in;
    char clean[PROCESS_TEXT], held[UNITS_TEXT], where[48];

    /* only after the detach: a slow terminal must not delay the target */
    if (job->options->verbose && caller->injection.summary.tid)
        print_search(job);
    if (job->options->quiet || !summary->tid)
        return;
    name = syscall_name(summary->syscall_nr);
    waits_in = summary->waits_in >= 0 ? syscall_name(summary->waits_in) : NULL;
    if (caller->end == TARGET_ENDS)
        snprintf(where, sizeof where, "and the process has ended");
    else if (caller->end == TARGET_THREAD_ENDS)
        snprintf(where, sizeof where, "and has ended");
    else if (summary->outcome == INJECTION_LEFT)
        snprintf(where, sizeof where, "now cancelled or in a signal handler");
    else if (summary->outcome == INJECTION_ABANDONED)
        snprintf(where, sizeof where, "left waiting in %s", waits_in ? waits_in : "the call");
    else if (summary->syscall_nr < 0)
        snprintf(where, sizeof where, "running again");
    else if (summary->syscall_nr == SYS_restart_syscall)
        snprintf(where, sizeof where, "back in its sleep");
    else if (name)
        snprintf(where, sizeof where, "back in %s", name);
    else
        snprintf(where, sizeof where, "back in system call %ld", summary->syscall_nr);
    job_process(job, clean);
    if (caller->holds > 1)
        message("%s a thread stopped %u times, %s at most, %u calls; last thread %d, %s", clean,
                caller->holds, units_duration(caller->longest_ns, held), caller->calls,
                (int)summary->tid, where);
    else
        message("%s thread %d stopped for %s, %u call%s, %s", clean, (int)summary->tid,
                units_duration(summary->held_ns, held), summary->calls, plural(summary->calls),
                where);
}

int job_finish(struct job *job, fault_code code, const struct fault *fault)
{
    const struct subject subject = job_subject(job);
    struct fault stdout_fault;
    int exit_code = EXIT_DONE;

    if (code == FAULT_NONE) {
        code = stdout_check(&stdout_fault);
        fault = &stdout_fault;
    }
    if (code != FAULT_NONE)
        exit_code = message_fault(&subject, fault);
    print_warnings(job->attachment);
    if (!job->options->quiet && job->attachment->read.count)
        print_read(job);
    print_closing(job);
    attachment_close(job->attachment);
    return exit_code;
}

int job_run(const struct options *options, pid_t pid, enum job_way way, const char *verb,
            job_perform perform, void *ctx)
{
    struct attachment attachment;
    struct attach_request request;
    struct fault fault;
    struct job job;
    fault_code rc;

    job_init(&job, &attachment, options, verb);
    request = way == JOB_AS_ASKED ? job_request(&job, pid) : job_look_request(&job, pid);
    if (way == JOB_READS)
        request.way = WAY_MEMORY;
    if (way == JOB_LOOKS)
        job.instead = "use --no-call, which shows what is known without one";
    rc = attachment_find(&attachment, &request, &fault);
    if (rc == FAULT_NONE)
        rc = perform(&job, ctx, &fault);
    return job_finish(&job, rc, &fault);
}

/* ---- what became of prof.active ---- */

static void print_sampled(const struct job *job, const struct sampling *sampling)
{
    const char *how = sampling->interrupted ? "interrupted; " : "";
    char time[UNITS_TEXT];

    if (job->options->quiet || !sampling->began || sampling->gone || sampling->foreign)
        return;
    units_duration(sampling_ns(sampling), time);
    if (prof_is_active(&sampling->former))
        message("%ssampled for %s; prof.active was true before and stays true", how, time);
    else if (sampling->left_on)
        message("%ssampled for %s; prof.active stays true for another run of jeattach, which "
                "switches it off at its end",
                how, time);
    else
        message("%ssampled for %s; prof.active is false again", how, time);
}

/* True after a second Ctrl-C, which is reported only after prof.active is restored. */
static bool left_without_result(const struct sampling *sampling, fault_code rc)
{
    return rc == FAULT_INTERRUPTED && sampling->began;
}

static fault_code settle_job(struct job *job, struct sampling *sampling, struct fault *fault)
{
    static char verb[80];
    fault_code rc = sampling_settle(job->attachment, sampling, fault);

    if (rc != FAULT_NONE) {
        snprintf(verb, sizeof verb, "restore %s in process",
                 prof_is_active(&sampling->former) ? "prof.active to true"
                                                   : "prof.active to false");
        job->verb = verb;
    }
    return rc;
}

int job_finish_sampling(struct job *job, struct sampling *sampling, fault_code rc,
                        struct fault *fault)
{
    struct subject subject = job_subject(job);
    bool gone = sampling_is_gone(job->attachment, sampling, rc);
    fault_code settled;
    int code = EXIT_DONE, last;
    const char *verb = job->verb;
    struct fault own;
    char time[UNITS_TEXT], age[UNITS_TEXT];

    subject.samples_stay = job->keeps_samples && sampling->began && !gone;
    if (rc != FAULT_NONE && !left_without_result(sampling, rc))
        code = message_fault(&subject, fault);
    if (gone && sampling->began && sampling->cut_short_ns)
        message("recorded for %s, cut short: the profile was read %s before the end was seen",
                units_duration(sampling_ns(sampling), time),
                units_duration(sampling->cut_short_ns, age));
    else if (gone && sampling->began)
        message("recorded for %s; the samples since the last profile are lost",
                units_duration(sampling_ns(sampling), time));
    settled = settle_job(job, sampling, &own);
    if (settled == FAULT_NONE && left_without_result(sampling, rc))
        code = message_fault(&subject, fault);
    if (settled == FAULT_NONE)
        print_sampled(job, sampling);
    last = job_finish(job, settled, &own);
    job->verb = verb; /* watch uses the job for the next process */
    if (last != EXIT_DONE)
        return last;
    if (code != EXIT_DONE)
        return code;
    return sampling->interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
}

void job_print_head(const struct job *job)
{
    char name[PROCESS_TEXT];

    if (job->options->pid_count > 1)
        printf("%s\n", job_process(job, name));
}
