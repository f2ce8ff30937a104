#include "cli/attachment.h"
#include "attach/permit.h"
#include "attach/room.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "inject/acquire.h"
#include "inject/selfcheck.h"
#include "jemalloc/code.h"
#include "jemalloc/conf.h"
#include "jemalloc/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

enum { ROOM_WANTED = 32 << 10 }; /* of memory, for a call */

/* What can go wrong with a target of any kind because it is just ending. */
static bool may_be_its_end(enum fault_code code)
{
    return code == FAULT_INTERNAL || code == FAULT_FOREIGN_ABI || code == FAULT_DENIED ||
           code == FAULT_TRACED || code == FAULT_NO_ALLOCATOR || code == FAULT_UNSUPPORTED ||
           code == FAULT_NO_STOP || code == FAULT_NO_SAFE_POINT || code == FAULT_NO_UNWINDER ||
           code == FAULT_NO_SCRATCH;
}

/* If the target has ended, that is the cause; a refusal by the kernel gets its own. */
static enum fault_code explained(struct attachment *attachment, enum fault_code code,
                                 struct fault *fault)
{
    struct fault end;

    if (!attachment->target.stat.start && (code == FAULT_GONE || code == FAULT_DENIED))
        return permit_explain_gone(&attachment->proc, attachment->target.pid, fault);
    if (attachment->target.pid && may_be_its_end(code) &&
        target_check(&attachment->target, &end) != FAULT_NONE) {
        *fault = end;
        return end.code;
    }
    if (code == FAULT_DENIED || code == FAULT_NO_STOP)
        code = permit_explain(&attachment->target, attachment->options->thread, fault);
    if ((code == FAULT_DENIED || code == FAULT_INTERNAL) && attachment->target.pid &&
        target_check_end(&attachment->target, &end) != FAULT_NONE) {
        *fault = end;
        return end.code;
    }
    return code;
}

static enum fault_code open_target(struct attachment *attachment, pid_t pid, struct fault *fault)
{
    enum fault_code rc;
    int err = procfs_open(&attachment->proc, "/proc");

    if (err)
        return fault_set(fault, FAULT_INTERNAL, -err, "open", "/proc");
    rc = permit_check_procfs(&attachment->proc, fault);
    if (rc == FAULT_NONE && attachment->options->pin)
        rc = target_open_pinned(&attachment->target, &attachment->proc, attachment->options->pin,
                                fault);
    else if (rc == FAULT_NONE)
        rc = target_open(&attachment->target, &attachment->proc, pid, fault);
    if (rc != FAULT_NONE)
        return rc;
    attachment->subject.name = attachment->target.stat.comm;
    attachment->subject.ns_pid = target_ns_pid(&attachment->target);
    return FAULT_NONE;
}

/* What is refused for certain is not tried; where only the rules say so, the kernel decides. */
static enum fault_code refuse_early(struct attachment *attachment, struct fault *fault)
{
    struct fault seen = {0};
    bool certain;

    permit_forecast(&attachment->target, attachment->options->thread, &certain, &seen);
    if (seen.code == FAULT_NONE || !certain)
        return FAULT_NONE;
    *fault = seen;
    return seen.code;
}

/* Takes one of the instances: that of --instance, or the default. */
static enum fault_code choose_instance(struct attachment *attachment, struct fault *fault)
{
    struct instances *instances = &attachment->instances;
    size_t wanted = (size_t)attachment->options->instance;

    if (wanted > instances->count)
        return fault_set(fault, FAULT_NO_INSTANCE, 0, "look for jemalloc", "%zu", instances->count);
    if (wanted)
        instances->chosen = wanted - 1;
    attachment->instance = instances->list[instances->chosen];
    attachment->instance.module.path = attachment->instance.path;
    return FAULT_NONE;
}

static enum fault_code find_instances(struct attachment *attachment, bool every,
                                      struct fault *fault)
{
    enum fault_code rc;

    if (!every && !attachment->options->instance)
        return instance_find(&attachment->instance, &attachment->modules, &attachment->target,
                             &attachment->memory, fault);
    rc = instances_find(&attachment->instances, &attachment->modules, &attachment->target,
                        &attachment->memory, fault);
    return rc == FAULT_NONE ? choose_instance(attachment, fault) : rc;
}

/* It stays open from one hold to the next, unless the thread has ended that it was opened by. */
static enum fault_code open_memory(struct attachment *attachment, struct fault *fault)
{
    struct memory *memory = &attachment->memory;

    if (memory->gate && memory->pid == target_via(&attachment->target))
        return FAULT_NONE;
    memory_close(memory);
    return memory_open(memory, &attachment->target, &attachment->gate, fault);
}

static enum fault_code find_allocator(struct attachment *attachment, bool every,
                                      struct fault *fault)
{
    enum fault_code rc = open_memory(attachment, fault);

    if (rc == FAULT_NONE)
        rc = modules_load(&attachment->modules, &attachment->target, fault);
    if (rc == FAULT_NONE)
        rc = find_instances(attachment, every, fault);
    if (rc == FAULT_NONE)
        conf_variable_name(attachment->instance.prefix, attachment->variable,
                           sizeof attachment->variable);
    return rc;
}

static enum fault_code make_plan(struct attachment *attachment, struct fault *fault)
{
    enum fault_code rc = plan_make(&attachment->plan, &attachment->modules, &attachment->target,
                                   &attachment->memory, fault);

    if (rc == FAULT_NONE)
        rc = code_forbid(&attachment->instance, &attachment->plan, &attachment->target,
                         &attachment->memory, fault);
    plan_seal(&attachment->plan);
    return rc;
}

/* Whatever the target is, the tool comes to an end. */
static void watch(struct attachment *attachment)
{
    const struct watchdog_case what = {.subject = &attachment->subject,
                                       .tid = &attachment->injection.report.tid};

    watchdog_start(&attachment->watchdog, attachment->options->timeout_ns, &what);
}

static enum fault_code open_unmapped(struct attachment *attachment, const struct options *options,
                                     pid_t pid, const char *verb, struct fault *fault)
{
    enum fault_code rc;

    memset(attachment, 0, sizeof *attachment);
    attachment->options = options;
    attachment->proc.dirfd = attachment->target.pidfd = -1;
    attachment->memory.memfd = attachment->memory.mapsfd = -1;
    attachment->subject =
        (struct subject){.pid = pid, .verb = verb, .variable = attachment->variable};
    /* With -o - stdout is the profile's. */
    attachment->subject.json =
        options->json && !(options->output && strcmp(options->output, "-") == 0);
    gate_init(&attachment->gate, options->verbose > 1 ? stderr : NULL);
    rc = deadline_start(&attachment->deadline, options->timeout_ns, interrupt_flag(), fault);
    watch(attachment);
    if (rc == FAULT_NONE)
        rc = open_target(attachment, pid, fault);
    return rc;
}

enum fault_code attachment_look(struct attachment *attachment, const struct options *options,
                                pid_t pid, const char *verb, struct fault *fault)
{
    enum fault_code rc = open_unmapped(attachment, options, pid, verb, fault);

    if (rc == FAULT_NONE)
        rc = find_allocator(attachment, true, fault);
    return explained(attachment, rc, fault);
}

enum fault_code attachment_prepare(struct attachment *attachment, struct fault *fault)
{
    enum fault_code rc = refuse_early(attachment, fault);

    if (rc == FAULT_NONE)
        rc = make_plan(attachment, fault);
    return explained(attachment, rc, fault);
}

enum fault_code attachment_open(struct attachment *attachment, const struct options *options,
                                pid_t pid, const char *verb, struct fault *fault)
{
    enum fault_code rc = open_unmapped(attachment, options, pid, verb, fault);

    if (rc == FAULT_NONE)
        rc = refuse_early(attachment, fault);
    if (rc == FAULT_NONE)
        rc = find_allocator(attachment, false, fault);
    if (rc == FAULT_NONE)
        rc = make_plan(attachment, fault);
    return explained(attachment, rc, fault);
}

void attachment_rest(struct attachment *attachment)
{
    deadline_stop(&attachment->deadline);
}

/* What was learned of a program that may have changed since; its memory stays open. */
static void forget(struct attachment *attachment)
{
    plan_free(&attachment->plan);
    memset(&attachment->plan, 0, sizeof attachment->plan);
    instances_free(&attachment->instances);
    memset(&attachment->instances, 0, sizeof attachment->instances);
    modules_free(&attachment->modules);
    memset(&attachment->modules, 0, sizeof attachment->modules);
    memory_forget(&attachment->memory);
}

static enum fault_code same_program(struct attachment *attachment, struct fault *fault)
{
    enum fault_code rc = target_renew(&attachment->target, fault);

    if (rc == FAULT_NONE && !memory_is_same(&attachment->memory, attachment->instance.mallctl))
        rc = fault_set(fault, FAULT_EXECED, 0, "look up the process", "%d",
                       (int)attachment->target.pid);
    return rc;
}

enum fault_code attachment_renew(struct attachment *attachment,
                                 const volatile sig_atomic_t *interrupted, struct fault *fault)
{
    enum fault_code rc = same_program(attachment, fault);

    deadline_stop(&attachment->deadline);
    if (rc == FAULT_NONE)
        rc = deadline_start(&attachment->deadline, attachment->options->timeout_ns, interrupted,
                            fault);
    if (rc == FAULT_NONE)
        rc = refuse_early(attachment, fault);
    if (rc == FAULT_NONE) {
        forget(attachment);
        rc = find_allocator(attachment, false, fault);
    }
    if (rc == FAULT_NONE)
        rc = make_plan(attachment, fault);
    return explained(attachment, rc, fault);
}

struct injection_env attachment_env(struct attachment *attachment)
{
    return (struct injection_env){
        .target = &attachment->target,
        .memory = &attachment->memory,
        .modules = &attachment->modules,
        .plan = &attachment->plan,
        .gate = &attachment->gate,
        .deadline = &attachment->deadline,
        .only_thread = attachment->options->thread,
        .sleeps = attachment->sleeps,
    };
}

/*
 * What a call costs was measured with tests/containers/memory.py: 6 pages, of stack, arguments and
 * code, until it is over. The kernel's killer would not ask whose they are.
 */
static enum fault_code refuse_full(const struct attachment *attachment, struct fault *fault)
{
    struct room room;

    if (!room_look(&attachment->proc, target_via(&attachment->target), &room) ||
        room.bytes >= ROOM_WANTED)
        return FAULT_NONE;
    return fault_set(fault, FAULT_NO_ROOM, ENOMEM, "hold", "%s has %llu KiB left", room.group,
                     (unsigned long long)room.bytes >> 10);
}

static enum fault_code begin(struct attachment *attachment, struct fault *fault)
{
    const struct injection_env env = attachment_env(attachment);
    enum fault_code rc = FAULT_NONE;

    if (!attachment->frame_checked)
        rc = selfcheck_run(&attachment->proc, fault);
    attachment->frame_checked = rc == FAULT_NONE;
    if (rc == FAULT_NONE)
        rc = target_check(&attachment->target, fault);
    if (rc == FAULT_NONE && deadline_interrupted(&attachment->deadline))
        rc = fault_set(fault, FAULT_INTERRUPTED, EINTR, "hold", "%d", attachment->target.pid);
    if (rc == FAULT_NONE)
        rc = refuse_full(attachment, fault);
    if (rc == FAULT_NONE)
        rc = injection_begin(&attachment->injection, &env, fault);
    return explained(attachment, rc, fault);
}

static void count_hold(struct attachment *attachment)
{
    const struct injection_report *report = &attachment->injection.report;

    attachment->last = *report;
    attachment->holds++;
    attachment->calls += report->calls;
    if (report->held_ns > attachment->longest_ns)
        attachment->longest_ns = report->held_ns;
}

enum fault_code attachment_hold(struct attachment *attachment, held_action action, void *ctx,
                                struct fault *fault)
{
    enum fault_code rc = begin(attachment, fault), ended;

    if (rc != FAULT_NONE)
        return rc;
    rc = ctl_confirm(&attachment->injection, &attachment->instance, fault);
    if (rc == FAULT_NONE)
        rc = action(attachment, ctx, fault);
    ended = injection_end(&attachment->injection, rc == FAULT_NONE ? fault : NULL);
    count_hold(attachment);
    return explained(attachment, rc == FAULT_NONE ? ended : rc, fault);
}

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
    const struct injection_report *report = &attachment->injection.report;
    char took[32], place[96];

    if (attachment->options->verbose < 1 || !report->tid)
        return;
    message_duration(report->search_ns, took, sizeof took);
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
static const struct injection_report *last_report(const struct attachment *attachment)
{
    const struct injection_report *report = &attachment->injection.report;
    return report->tid ? report : &attachment->last;
}

static void closing_line(const struct attachment *attachment)
{
    const struct injection_report *report = last_report(attachment);
    const char *name = syscall_name(report->syscall_nr);
    char clean[64], held[32], where[48];

    tell_search(attachment); /* only now: a slow terminal must not hold the target */
    if (attachment->options->quiet || !report->tid)
        return;
    if (report->syscall_nr < 0)
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
                message_duration(attachment->longest_ns, held, sizeof held), attachment->calls,
                (int)report->tid, where);
    else
        message("%s[%d] thread %d held %s, %u call%s, %s", clean, (int)attachment->target.pid,
                (int)report->tid, message_duration(report->held_ns, held, sizeof held),
                report->calls, plural(report->calls), where);
}

static void close_all(struct attachment *attachment)
{
    watchdog_stop(&attachment->watchdog);
    deadline_stop(&attachment->deadline);
    plan_free(&attachment->plan);
    instances_free(&attachment->instances);
    modules_free(&attachment->modules);
    memory_close(&attachment->memory);
    target_close(&attachment->target);
    procfs_close(&attachment->proc);
}

int attachment_finish(struct attachment *attachment, enum fault_code code,
                      const struct fault *fault)
{
    struct fault stdout_fault;
    int exit_code = EXIT_DONE;

    if (code == FAULT_NONE) {
        code = output_stdout_check(&stdout_fault);
        fault = &stdout_fault;
    }
    if (code != FAULT_NONE)
        exit_code = message_fault(&attachment->subject, fault);
    closing_line(attachment);
    close_all(attachment);
    return exit_code;
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
    const struct injection_report *report = &attachment->injection.report;

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

enum fault_code attachment_describe(struct attachment *attachment, const char *const *calls,
                                    size_t count, struct fault *fault)
{
    const struct injection_env env = attachment_env(attachment);
    const struct instance *instance = &attachment->instance;
    char path[512], comm[32];
    struct preview preview;
    enum fault_code rc = acquire_preview(&env, &preview, fault);

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
    for (size_t i = 0; i < count; i++)
        printf("%s%s\n", i ? "           " : "calls      ", calls[i]);
    return FAULT_NONE;
}
