#include "jemalloc/selection.h"
#include "base/list.h"
#include "host/task.h"
#include "inject/syscalls.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <string.h>

void selection_free(struct selection *selection)
{
    for (size_t i = 0; i < selection->count; i++)
        target_pin_close(&selection->list[i].pin);
    free(selection->list);
    free(selection->left);
    memset(selection, 0, sizeof *selection);
}

/* Takes over the target; basics: only what can be read of every process. */
static fault_code keep_target(struct selection *selection, struct target *target,
                              const struct examined_process *found, struct fault *fault)
{
    struct selected *selected;

    if (!LIST_GROW(selection->list, selection->capacity, selection->count))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "list processes", "%d", (int)target->pid);
    selected = &selection->list[selection->count++];
    memset(selected, 0, sizeof *selected);
    if (found) {
        selected->entry = found->entry;
        selected->container = found->container;
    } else {
        selected->entry.stat = target->stat;
        selected->entry.status = target->status;
        (void)container_read(target->proc, target->pid, &selected->container);
    }
    selected->pin = target_take_pin(target);
    return FAULT_NONE;
}

/* Keeps a process, if it still is the one that was examined. */
static fault_code keep_examined(struct selection *selection, struct procfs *proc,
                                const struct examined *examined, struct fault *fault)
{
    struct target target;
    fault_code rc = FAULT_NONE;

    if (target_open_pinned(&target, proc, &examined->pin, NULL) == FAULT_NONE)
        rc = keep_target(selection, &target, examined->found, fault);
    target_close(&target);
    if (rc == FAULT_NONE && selection->count) {
        struct selected *kept = &selection->list[selection->count - 1];
        kept->without = examined->as == EXAMINED_MATCH && examined->code == FAULT_NO_ALLOCATOR;
        kept->unreadable |= !examined->found && !kept->without;
    }
    return rc;
}

struct left_out left_out_describe(const struct examined *examined, const struct procfs *proc)
{
    struct left_out left = {.pid = examined->pid,
                            .end = examined->end,
                            .call = examined->call,
                            .signal = examined->signal,
                            .matches = examined->matches};
    struct proc_stat stat;

    if (process_stat(proc, examined->pid, &stat) == 0)
        memcpy(left.name, stat.comm, sizeof left.name);
    return left;
}

static fault_code add_left(struct selection *selection, const struct selector *selector,
                           struct procfs *proc, const struct examined *examined,
                           struct fault *fault)
{
    size_t before = selection->count;
    fault_code rc = FAULT_NONE;

    selection->matched += examined->matches;
    if (examined->matches && selector->name)
        rc = keep_examined(selection, proc, examined, fault);
    if (rc == FAULT_NONE &&
        !LIST_GROW(selection->left, selection->left_capacity, selection->left_count))
        rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "list processes", "%d", (int)examined->pid);
    if (rc == FAULT_NONE) {
        struct left_out *left = &selection->left[selection->left_count++];
        *left = left_out_describe(examined, proc);
        left->chosen = selection->count > before;
    }
    return rc;
}

/* A process that may not be read is a match whose use of jemalloc nobody knows. */
static fault_code judge_match(struct selection *selection, const struct selector *selector,
                              struct procfs *proc, const struct examined *examined,
                              struct fault *fault)
{
    bool unreadable = examined->code == FAULT_DENIED || examined->code == FAULT_INTERNAL ||
                      examined->code == FAULT_UNSUPPORTED;

    bool without = examined->code == FAULT_NO_ALLOCATOR;

    selection->matched++;
    selection->without += without;
    selection->unreadable += unreadable;
    if (examined->found || (unreadable && selector->name) || (without && selection->any_allocator))
        return keep_examined(selection, proc, examined, fault);
    return FAULT_NONE;
}

/* Only lack of memory in the tool ends this: no process does, whatever it has done. */
static fault_code take_examined(struct selection *selection, const struct selector *selector,
                                struct procfs *proc, const struct examination *examination,
                                pid_t *last, struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    for (size_t i = 0; i < examination->count && rc == FAULT_NONE; i++) {
        const struct examined *examined = &examination->list[i];
        if (examined->selected.engine)
            selector_note_container(selection->containers, &examined->selected);
        selection->own += examined->as == EXAMINED_OWN;
        if (examined->matches)
            *last = examined->pid;
        if (examined->as == EXAMINED_GIVEN_UP)
            rc = add_left(selection, selector, proc, examined, fault);
        else if (examined->as == EXAMINED_MATCH)
            rc = judge_match(selection, selector, proc, examined, fault);
    }
    return rc;
}

/* Sets the fault of a search that did not reach all processes. */
static fault_code check_reached(const struct examination *examination,
                                const struct deadline *deadline, struct fault *fault)
{
    size_t reached = 0;

    for (size_t i = 0; i < examination->count; i++)
        reached += examination->list[i].as != EXAMINED_NOT;
    if (deadline && deadline_interrupted(deadline))
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "look at processes", "the processes");
    if (reached < examination->count)
        return fault_set(fault, FAULT_TOO_LATE, 0, "look at processes",
                         "%zu of %zu processes were examined", reached, examination->count);
    return FAULT_NONE;
}

static fault_code left_out_fault(const struct left_out *left, struct fault *fault)
{
    const char *call = syscall_name(left->call);

    if (left->end != POOL_STUCK)
        return fault_set(fault, FAULT_INTERNAL, 0, "look for jemalloc", "process %d was left out",
                         (int)left->pid);
    return fault_set(fault, FAULT_NO_ANSWER, ETIMEDOUT, "look for jemalloc", "%s",
                     call ? call : "a system call");
}

fault_code selection_drop_left_out(struct selection *selection, struct fault *fault)
{
    struct left_out *last = NULL;
    size_t kept = 0;

    for (size_t i = 0; i < selection->count; i++) {
        struct selected *selected = &selection->list[i];
        struct left_out *left = NULL;
        for (size_t k = 0; k < selection->left_count && !left; k++)
            if (selection->left[k].chosen && selection->left[k].pid == selected->pin.pid)
                left = &selection->left[k];
        if (!left) {
            selection->list[kept++] = *selected;
            continue;
        }
        target_pin_close(&selected->pin);
        left->chosen = false;
        last = left;
    }
    selection->count = kept;
    return kept || !last ? FAULT_NONE : left_out_fault(last, fault);
}

/* Takes the only match of a name, which has no jemalloc: the attach reports that. */
static fault_code take_only(struct selection *selection, struct procfs *proc, pid_t pid,
                            struct fault *fault)
{
    struct target target;
    fault_code rc = target_open(&target, proc, pid, fault);

    if (rc == FAULT_NONE)
        rc = keep_target(selection, &target, NULL, fault);
    target_close(&target);
    return rc;
}

/* Sets the fault for an empty selection; last is a match. */
static fault_code explain_none(struct selection *selection, const struct selector *selector,
                               struct procfs *proc, pid_t last, struct fault *fault)
{
    if (selection->unreadable)
        return fault_set(fault, FAULT_DENIED, EACCES, "look at processes", "%zu processes",
                         selection->unreadable);
    for (size_t i = 0; i < selection->left_count; i++)
        if (selection->left[i].matches)
            return left_out_fault(&selection->left[i], fault);
    if (selector->name && selection->matched == 1)
        return take_only(selection, proc, last, fault);
    if (selector->name && selection->without)
        return fault_set(fault, FAULT_NO_ALLOCATOR, 0, "look for jemalloc", "%zu processes",
                         selection->without);
    return fault_set(fault, FAULT_NO_MATCH, 0, "look at processes", "%zu processes",
                     selection->looked);
}

static fault_code select_examined(struct selection *selection, const struct selector *selector,
                                  struct procfs *proc, struct census *census,
                                  const struct matches *matches, const struct deadline *deadline,
                                  struct fault *fault)
{
    struct examination examination;
    pid_t last = 0;
    fault_code rc =
        examination_run(&examination, matches, selector, true, proc, census, deadline, fault);

    if (rc == FAULT_NONE)
        rc = take_examined(selection, selector, proc, &examination, &last, fault);
    if (rc == FAULT_NONE)
        rc = check_reached(&examination, deadline, fault);
    examination_free(&examination);
    if (rc == FAULT_NONE && selection->containers[1].engine)
        return fault_set(fault, FAULT_AMBIGUOUS, 0, "find the container", "%s",
                         selector->container);
    if (rc == FAULT_NONE && selection->count == 0)
        return explain_none(selection, selector, proc, last, fault);
    if (rc == FAULT_NONE && selection->count == 1)
        return selection_drop_left_out(selection, fault);
    return rc;
}

fault_code selection_find(struct selection *selection, const struct selector *selector,
                          bool any_allocator, struct procfs *proc, struct census *census,
                          const struct deadline *deadline, struct fault *fault)
{
    struct selector first = *selector;
    struct matches matches;
    fault_code rc;

    memset(selection, 0, sizeof *selection);
    selection->any_allocator = any_allocator;
    first.match_later = true;
    rc = selector_list(&first, proc, &matches, fault);
    selection->looked = matches.looked;
    if (rc == FAULT_NONE)
        rc = select_examined(selection, selector, proc, census, &matches, deadline, fault);
    matches_free(&matches);
    return rc;
}
