#include "run/attachment.h"
#include "attach/permit.h"
#include "jemalloc/conf.h"
#include "run/faults.h"
#include "run/interrupt.h"
#include "run/need.h"

#include <errno.h>
#include <string.h>

/* Finds the cause: the end of the target, or the rule behind a refusal of the kernel. */
fault_code attachment_explain(struct attachment *attachment, fault_code code, struct fault *fault)
{
    struct fault end;

    if (attachment->target.record)
        return code;
    if (!attachment->target.stat.start && (code == FAULT_GONE || code == FAULT_DENIED))
        return permit_explain_gone(&attachment->proc, attachment->target.pid, fault);
    if (attachment->target.pid && fault_may_be_end(code) &&
        target_check(&attachment->target, &end) != FAULT_NONE) {
        *fault = end;
        return end.code;
    }
    if (code == FAULT_DENIED || code == FAULT_NO_STOP || code == FAULT_NO_SAFE_POINT)
        code = permit_explain(&attachment->target, attachment->request.thread, fault);
    if ((code == FAULT_DENIED || code == FAULT_INTERNAL) && attachment->target.pid &&
        target_check_end(&attachment->target, &end) != FAULT_NONE) {
        *fault = end;
        return end.code;
    }
    return code;
}

/* It stays open between holds, unless the thread through which it was opened has ended. */
static void open_memory(struct attachment *attachment)
{
    struct memory *memory = &attachment->memory;

    if (attachment->target.record)
        return;
    if (memory->gate && memory->pid == target_via(&attachment->target)) {
        memory_heed_swap(memory, &attachment->target);
        return;
    }
    memory_close(memory);
    memory_open(memory, &attachment->target, &attachment->gate);
}

/*
 * A search fails on memory that is left in swap, or that the kernel refuses to show: if the
 * process has made itself not dumpable in the meantime, that is the cause.
 */
fault_code attachment_unless_refused(const struct attachment *attachment, fault_code rc,
                                     struct fault *fault)
{
    bool depends = rc == FAULT_NO_ALLOCATOR || rc == FAULT_NO_SAFE_POINT ||
                   rc == FAULT_UNSUPPORTED || rc == FAULT_INTERNAL;

    if (rc == FAULT_NO_ALLOCATOR && attachment->deadline.armed) {
        if (deadline_interrupted(&attachment->deadline))
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "look for jemalloc", "%d",
                             (int)attachment->target.pid);
        if (deadline_passed(&attachment->deadline))
            return fault_set(fault, FAULT_TOO_LATE, ETIMEDOUT, "look for jemalloc",
                             "the files of its modules take too long to search");
    }
    if (depends && attachment->memory.left_out)
        return need_explain_swapped(attachment, fault);
    if (!depends || !memory_is_refused(&attachment->memory))
        return rc;
    fault_set(fault, FAULT_DENIED, EPERM, "read memory", "%d", (int)attachment->target.pid);
    fault_set_reason(fault, DENIED_MEMORY);
    return FAULT_DENIED;
}

static fault_code map_modules(struct attachment *attachment, struct fault *fault)
{
    fault_code rc;

    open_memory(attachment);
    rc = modules_load(&attachment->modules, &attachment->target, fault);
    if (rc == FAULT_NONE)
        modules_tell_memory(&attachment->modules, &attachment->memory);
    return rc;
}

/* Takes the requested instance, or the default. */
static fault_code find_allocator(struct attachment *attachment, struct fault *fault)
{
    struct instances *instances = &attachment->instances;
    const size_t wanted = attachment->request.instance;
    const bool all = attachment->request.every || wanted;
    fault_code rc = map_modules(attachment, fault);

    if (rc == FAULT_NONE && all)
        rc = instances_find(instances, &attachment->modules, &attachment->target,
                            &attachment->memory, fault);
    else if (rc == FAULT_NONE)
        rc = instance_find(&attachment->instance, &attachment->modules, &attachment->target,
                           &attachment->memory, fault);
    if (rc == FAULT_NONE && wanted > instances->count)
        rc = fault_set(fault, FAULT_NO_INSTANCE, 0, "look for jemalloc", "%zu", instances->count);
    if (rc != FAULT_NONE)
        return attachment_unless_refused(attachment, rc, fault);
    if (wanted)
        instances->chosen = wanted - 1;
    if (all) {
        attachment->instance = instances->list[instances->chosen];
        attachment->instance.module.path = attachment->instance.path;
    }
    conf_variable_name(attachment->instance.prefix, attachment->variable,
                       sizeof attachment->variable);
    return FAULT_NONE;
}

static void attachment_init(struct attachment *attachment, const struct attach_request *request)
{
    memset(attachment, 0, sizeof *attachment);
    attachment->request = *request;
    attachment->caller.hooks.given = request->force_hooks;
    attachment->proc.dirfd = attachment->target.pidfd = -1;
    attachment->memory.memfd = attachment->memory.mapsfd = -1;
    gate_init(&attachment->gate);
}

static fault_code open_unmapped(struct attachment *attachment, const struct attach_request *request,
                                struct fault *fault)
{
    const struct run_events *events = request->events;
    const struct stall_guard_case what = {.tid = &attachment->caller.injection.summary.tid,
                                          .held = &attachment->memory.stopped_tid,
                                          .stalled = events ? events->stalled : NULL,
                                          .ctx = events ? events->ctx : NULL};
    fault_code rc;
    int err;

    attachment_init(attachment, request);
    rc = deadline_start(&attachment->deadline, request->timeout_ns, interrupt_flag(), fault);
    /* So that no target can block the tool for ever. */
    stall_guard_start(&attachment->stall_guard, request->timeout_ns, &what);
    if (rc != FAULT_NONE)
        return rc;
    err = procfs_open(&attachment->proc, "/proc");
    if (err)
        return fault_set(fault, FAULT_INTERNAL, -err, "open", "/proc");
    rc = permit_check_procfs(&attachment->proc, fault);
    if (rc == FAULT_NONE && request->pin)
        rc = target_open_pinned(&attachment->target, &attachment->proc, request->pin, fault);
    else if (rc == FAULT_NONE)
        rc = target_open(&attachment->target, &attachment->proc, request->pid, fault);
    attachment->opened = rc == FAULT_NONE;
    return rc;
}

fault_code attachment_find(struct attachment *attachment, const struct attach_request *request,
                           struct fault *fault)
{
    fault_code rc = open_unmapped(attachment, request, fault);

    if (rc == FAULT_NONE)
        rc = find_allocator(attachment, fault);
    return attachment_explain(attachment, rc, fault);
}

fault_code attachment_map(struct attachment *attachment, const struct attach_request *request,
                          struct fault *fault)
{
    fault_code rc = open_unmapped(attachment, request, fault);

    if (rc == FAULT_NONE)
        rc = map_modules(attachment, fault);
    return attachment_explain(attachment, rc, fault);
}

fault_code attachment_look_recorded(struct attachment *attachment,
                                    const struct attach_request *request,
                                    const struct target *target, const struct memory_source *source,
                                    struct fault *fault)
{
    attachment_init(attachment, request);
    attachment->request.every = true;
    attachment->target = *target;
    attachment->target.proc = &attachment->proc;
    memory_open_source(&attachment->memory, source);
    attachment->opened = true;
    return find_allocator(attachment, fault);
}

void attachment_rest(struct attachment *attachment)
{
    deadline_stop(&attachment->deadline);
}

/* Drops what is known of a program that may have changed; its memory stays open. */
static void forget(struct attachment *attachment)
{
    if (attachment->reader_opened)
        reader_close(&attachment->reader);
    attachment->reader_opened = false;
    if (attachment->caller.planned)
        caller_forget(&attachment->caller);
    instances_free(&attachment->instances);
    memset(&attachment->instances, 0, sizeof attachment->instances);
    modules_free(&attachment->modules);
    memset(&attachment->modules, 0, sizeof attachment->modules);
    memset(&attachment->byte, 0, sizeof attachment->byte);
    memset(&attachment->threads_place, 0, sizeof attachment->threads_place);
    memory_set_unchanging(&attachment->memory, NULL, 0);
}

bool attachment_map_again(struct attachment *attachment, struct fault *fault)
{
    struct modules now;

    fault->code = modules_load(&now, &attachment->target, fault);
    if (fault->code != FAULT_NONE)
        return false;
    if (!modules_same_code(&now, &attachment->modules)) {
        modules_free(&now);
        return false;
    }
    modules_free(&attachment->modules);
    attachment->modules = now;
    modules_tell_memory(&now, &attachment->memory);
    return true;
}

/* Keeps the plan if the code is the same; stacks come and go. */
static fault_code look_again(struct attachment *attachment, struct fault *fault)
{
    open_memory(attachment);
    if (attachment_map_again(attachment, fault) || fault->code != FAULT_NONE)
        return fault->code;
    forget(attachment);
    return find_allocator(attachment, fault);
}

fault_code attachment_renew(struct attachment *attachment, const volatile sig_atomic_t *interrupted,
                            struct fault *fault)
{
    fault_code rc = target_renew(&attachment->target, fault);

    if (rc == FAULT_NONE && !memory_is_same(&attachment->memory, attachment->instance.mallctl))
        rc = fault_set(fault, FAULT_EXECED, 0, "look up the process", "%d",
                       (int)attachment->target.pid);
    deadline_stop(&attachment->deadline);
    if (rc == FAULT_NONE)
        rc = deadline_start(&attachment->deadline, attachment->request.timeout_ns, interrupted,
                            fault);
    if (rc == FAULT_NONE)
        rc = look_again(attachment, fault);
    return attachment_explain(attachment, rc, fault);
}

struct reader_source attachment_source(struct attachment *attachment,
                                       const struct deadline *deadline)
{
    return (struct reader_source){.instance = &attachment->instance,
                                  .modules = &attachment->modules,
                                  .target = &attachment->target,
                                  .memory = &attachment->memory,
                                  .deadline = deadline};
}

void attachment_read_facts(struct attachment *attachment, struct prof_state *state)
{
    struct fact_variables variables;

    facts_locate(&variables, &attachment->instance, &attachment->modules, &attachment->target,
                 &attachment->memory);
    facts_read(&variables, &attachment->memory, state);
}

void attachment_close(struct attachment *attachment)
{
    stall_guard_stop(&attachment->stall_guard);
    deadline_stop(&attachment->deadline);
    forget(attachment);
    if (attachment->kept_files.list || attachment->kept_files.renewed)
        kept_files_close(&attachment->kept_files);
    memory_close(&attachment->memory);
    target_close(&attachment->target);
    procfs_close(&attachment->proc);
}

bool attachment_is_gone(const struct attachment *attachment, fault_code rc)
{
    struct fault end;

    if (fault_is_of_thread(rc) && target_check_end(&attachment->target, &end) == FAULT_NONE)
        return false;
    return fault_is_gone(rc);
}

void attachment_note(const struct attachment *attachment, const struct run_note *note)
{
    const struct run_events *events = attachment->request.events;

    if (events && events->note)
        events->note(events->ctx, note);
}
