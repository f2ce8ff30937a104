#include "jemalloc/selection.h"
#include "base/list.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <string.h>

static struct selected *add_selected(struct selection *selection)
{
    if (!LIST_GROW(selection->list, selection->capacity, selection->count))
        return NULL;
    struct selected *selected = &selection->list[selection->count++];
    memset(selected, 0, sizeof *selected);
    selected->pin.pidfd = -1;
    return selected;
}

void selection_free(struct selection *selection)
{
    for (size_t i = 0; i < selection->count; i++)
        target_pin_close(&selection->list[i].pin);
    free(selection->list);
    memset(selection, 0, sizeof *selection);
}

/* One process while it is being judged. */
struct candidate {
    struct target target; /* open all the time: its pidfd proves that all of it is one process */
    struct census_entry entry;
    bool unreadable;
};

static fault_code keep_candidate(struct selection *selection, struct candidate *candidate,
                                 struct fault *fault)
{
    struct selected *selected = add_selected(selection);

    if (!selected)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "list processes", "%d",
                         (int)candidate->target.pid);
    selected->entry = candidate->entry;
    selected->unreadable = candidate->unreadable;
    (void)container_read(candidate->target.proc, candidate->target.pid, &selected->container);
    selected->pin = target_take_pin(&candidate->target);
    return FAULT_NONE;
}

/* Fills in what can be read of every process. */
static void fill_basics(struct candidate *candidate)
{
    memset(&candidate->entry, 0, sizeof candidate->entry);
    candidate->entry.stat = candidate->target.stat;
    candidate->entry.status = candidate->target.status;
}

/* FAULT_NONE: a target. FAULT_GONE: not a target. No process, whatever it does, ends the search. */
static fault_code judge_candidate(struct selection *selection, const struct selector *selector,
                                  struct census *census, struct candidate *candidate,
                                  struct fault *fault)
{
    struct target *target = &candidate->target;
    fault_code look;

    if (!selector_matches(selector, target->proc, target->pid))
        return FAULT_GONE;
    look = census_look(census, target->proc, target->pid, &candidate->entry, fault);
    if (look != FAULT_NONE && fault_is_out_of_memory(fault))
        return look;
    if (target_check(target, NULL) != FAULT_NONE)
        return FAULT_GONE;
    selection->matched++;
    selection->without += look == FAULT_NO_ALLOCATOR;
    candidate->unreadable =
        look == FAULT_DENIED || look == FAULT_INTERNAL || look == FAULT_UNSUPPORTED;
    if (candidate->unreadable) {
        selection->unreadable++;
        fill_basics(candidate);
    }
    if (look == FAULT_NONE || (candidate->unreadable && selector->name))
        return keep_candidate(selection, candidate, fault);
    return FAULT_GONE;
}

/* Only lack of memory in the tool ends the search. */
static fault_code consider_pid(struct selection *selection, const struct selector *selector,
                               struct procfs *proc, struct census *census, pid_t pid,
                               struct fault *fault)
{
    struct candidate candidate = {.unreadable = false};
    fault_code rc;

    if (selector->at)
        *selector->at = pid;
    rc = target_open(&candidate.target, proc, pid, NULL);
    if (rc == FAULT_INTERNAL)
        rc = FAULT_GONE;
    if (rc == FAULT_NONE)
        rc = judge_candidate(selection, selector, census, &candidate, fault);
    target_close(&candidate.target);
    return rc == FAULT_INTERNAL ? rc : FAULT_NONE;
}

static fault_code consider_pids(struct selection *selection, const struct selector *selector,
                                struct procfs *proc, struct census *census,
                                const struct processes *processes, const struct deadline *deadline,
                                struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    for (size_t i = 0; i < processes->count && rc == FAULT_NONE; i++) {
        if (deadline && deadline_interrupted(deadline))
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "look at processes", "the processes");
        if (deadline && deadline_passed(deadline))
            return fault_set(fault, FAULT_TOO_LATE, 0, "look at processes",
                             "%zu of %zu processes were examined", i, processes->count);
        rc = consider_pid(selection, selector, proc, census, processes->list[i], fault);
    }
    return rc;
}

/* Takes the only match of a name, which has no jemalloc: the attach reports that. */
static fault_code take_only(struct selection *selection, struct procfs *proc, pid_t pid,
                            struct fault *fault)
{
    struct candidate candidate = {.unreadable = false};
    fault_code rc = target_open(&candidate.target, proc, pid, fault);

    if (rc == FAULT_NONE) {
        fill_basics(&candidate);
        rc = keep_candidate(selection, &candidate, fault);
    }
    target_close(&candidate.target);
    return rc;
}

/* Sets the fault for an empty selection; the pids of the matches are in the list. */
static fault_code explain_none(struct selection *selection, const struct selector *selector,
                               struct procfs *proc, const struct processes *processes,
                               struct fault *fault)
{
    if (selection->unreadable)
        return fault_set(fault, FAULT_DENIED, EACCES, "look at processes", "%zu processes",
                         selection->unreadable);
    if (selector->name && processes->count == 1)
        return take_only(selection, proc, processes->list[0], fault);
    if (selector->name && selection->without)
        return fault_set(fault, FAULT_NO_ALLOCATOR, 0, "look for jemalloc", "%zu processes",
                         selection->without);
    return fault_set(fault, FAULT_NO_MATCH, 0, "look at processes", "%zu processes",
                     selection->looked);
}

fault_code selection_find(struct selection *selection, const struct selector *selector,
                          struct procfs *proc, struct census *census,
                          const struct deadline *deadline, struct fault *fault)
{
    struct matches matches;
    fault_code rc;

    memset(selection, 0, sizeof *selection);
    rc = selector_list(selector, proc, &matches, fault);
    selection->looked = matches.looked;
    selection->own = matches.own;
    memcpy(selection->containers, matches.containers, sizeof selection->containers);
    if (rc == FAULT_NONE)
        rc = consider_pids(selection, selector, proc, census, &matches.processes, deadline, fault);
    if (rc == FAULT_NONE && selection->count == 0)
        rc = explain_none(selection, selector, proc, &matches.processes, fault);
    matches_free(&matches);
    return rc;
}
