/* What is said of a target: how it was held, and what a dry run would do. */
#include "base/units.h"
#include "inject/acquire.h"
#include "run/attachment.h"

#include <stdio.h>
#include <sys/syscall.h>

static const char *plural(unsigned n)
{
    return n == 1 ? "" : "s";
}

/* "libc.so.6+0x10e0ad": file-relative, as objdump has it. */
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

static void tell_search(const struct attachment *attachment)
{
    const struct injection_summary *report = &attachment->injection.summary;
    char took[32], place[96];

    if (attachment->options->verbose < 1 || !report->tid)
        return;
    units_duration(report->search_ns, took);
    name_place(attachment, report->pc, place, sizeof place);
    if (report->safe.frames)
        message("thread %d was at a safe point, %s: none of its %u frames is in jemalloc; found "
                "after %u stop%s, %s",
                (int)report->tid, place, report->safe.frames, report->attempts,
                plural(report->attempts), took);
    else
        message("thread %d was at a safe point, %s: no way into jemalloc on %zu bytes of stack; "
                "found after %u stop%s, %s",
                (int)report->tid, place, report->safe.scanned, report->attempts,
                plural(report->attempts), took);
}

/* Of the thread that was held last, or at least stopped. */
static const struct injection_summary *last_report(const struct attachment *attachment)
{
    const struct injection_summary *report = &attachment->injection.summary;
    return report->tid ? report : &attachment->last;
}

void attachment_hooks_line(const struct attachment *attachment)
{
    char clean[sizeof attachment->hooks.used.what];

    if (attachment->hooks.used.function)
        message("warning: allowed by --force-hooks: %s; if it waits for a lock that the held "
                "thread has, both wait for ever",
                message_clean(attachment->hooks.used.what, clean, sizeof clean));
}

void attachment_closing_line(const struct attachment *attachment)
{
    const struct injection_summary *report = last_report(attachment);
    const char *name = syscall_name(report->syscall_nr);
    char clean[64], held[32], where[48];

    tell_search(attachment); /* only now: a slow terminal must not hold the target */
    if (attachment->options->quiet || !report->tid)
        return;
    if (report->left)
        snprintf(where, sizeof where, "now cancelled or in a signal handler");
    else if (report->syscall_nr < 0)
        snprintf(where, sizeof where, "running again");
    else if (report->syscall_nr == SYS_restart_syscall)
        snprintf(where, sizeof where, "back in its sleep");
    else if (name)
        snprintf(where, sizeof where, "back in %s", name);
    else
        snprintf(where, sizeof where, "back in system call %ld", report->syscall_nr);
    message_clean(attachment->target.stat.comm, clean, sizeof clean);
    if (attachment->holds > 1)
        message("%s[%d] a thread held %u times, %s at most, %u calls; last thread %d, %s", clean,
                (int)attachment->target.pid, attachment->holds,
                units_duration(attachment->longest_ns, held), attachment->calls, (int)report->tid,
                where);
    else
        message("%s[%d] thread %d held %s, %u call%s, %s", clean, (int)attachment->target.pid,
                (int)report->tid, units_duration(report->held_ns, held), report->calls,
                plural(report->calls), where);
}

void attachment_head(const struct attachment *attachment)
{
    char name[64];

    if (attachment->options->pid_count > 1)
        printf("%s[%d]\n", message_clean(attachment->target.stat.comm, name, sizeof name),
               (int)attachment->target.pid);
}

void attachment_json_begin(const struct attachment *attachment, struct json *json)
{
    json_begin(json, stdout);
    json_number(json, "pid", (uint64_t)attachment->target.pid);
    json_number(json, "ns_pid", (uint64_t)target_ns_pid(&attachment->target));
    json_text(json, "name", attachment->target.stat.comm);
}

void attachment_json(const struct attachment *attachment, struct json *json)
{
    const struct injection_summary *report = &attachment->injection.summary;

    json_number(json, "thread", (uint64_t)report->tid);
    json_number(json, "held_ns", report->held_ns);
    json_number(json, "calls", report->calls);
    json_number(json, "stops", report->attempts);
    json_number(json, "search_ns", report->search_ns);
}

/* What a look at the thread tells of the proof that the stop would have to give. */
static void describe_proof(const struct attachment *attachment, const struct preview *preview)
{
    const struct evidence *evidence = &preview->evidence;
    const char *name = syscall_name(preview->asleep.nr);
    char place[96];

    printf("proof      ");
    if (!preview->asleep.asleep) {
        printf("%s: only a stop can tell\n",
               preview->thread.state == 'R' ? "it runs"
                                            : "where it sleeps, /proc does not show to the tool");
        return;
    }
    name_place(attachment, preview->asleep.pc, place, sizeof place);
    printf("asleep in %s at %s", name ? name : "the kernel", place);
    if (evidence->proof == PROOF_SAFE)
        printf(", no way into avoided code on %zu bytes of stack\n", evidence->scanned);
    else if (safepoint_wants_unwinder(evidence->proof))
        printf(", the stack is to be unwound: it %s%s%s\n",
               evidence->proof == PROOF_STACK ? "may be inside" : proof_text(evidence->proof),
               evidence->what ? " " : "", evidence->what ? evidence->what : "");
    else
        printf(", not safe: it %s%s%s\n", proof_text(evidence->proof), evidence->what ? " " : "",
               evidence->what ? evidence->what : "");
    printf("           (a look without a stop; the call is made only after the same at a stop)\n");
}

fault_code attachment_describe(struct attachment *attachment, const char *const *calls,
                               struct fault *fault)
{
    const struct injection_env env = attachment_env(attachment);
    const struct instance *instance = &attachment->instance;
    char path[512], comm[32];
    struct preview preview;
    fault_code rc = acquire_preview(&env, &preview, fault);

    if (rc != FAULT_NONE)
        return rc;
    attachment_head(attachment);
    printf("jemalloc   %s, %smallctl at %#llx\n",
           message_clean(instance->module.path, path, sizeof path), instance->prefix,
           (unsigned long long)instance->mallctl);
    printf("thread     %d (%s), the first of %zu that may be used\n", (int)preview.thread.tid,
           message_clean(preview.thread.comm, comm, sizeof comm), preview.candidates);
    describe_proof(attachment, &preview);
    printf("borrowed   system call at %#llx, sigreturn at %#llx\n",
           (unsigned long long)attachment->plan.gadgets.syscall_return,
           (unsigned long long)attachment->plan.gadgets.sigreturn);
    printf("avoided    %zu ranges of code\n", attachment->plan.forbidden.count);
    for (size_t i = 0; attachment->options->verbose && i < attachment->plan.forbidden.count; i++)
        printf("           %#llx-%#llx %s\n",
               (unsigned long long)attachment->plan.forbidden.list[i].start,
               (unsigned long long)attachment->plan.forbidden.list[i].end,
               attachment->plan.forbidden.list[i].what);
    for (size_t i = 0; calls[i]; i++)
        printf("%s%s\n", i ? "           " : "calls      ", calls[i]);
    return FAULT_NONE;
}
