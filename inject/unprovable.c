#include "inject/unprovable.h"
#include "inject/bounds.h"
#include "inject/faults.h"

#include <stdio.h>
#include <sys/syscall.h>

static bool is_unproven_so_far(const struct stop_record *record)
{
    return record->unproven > 0;
}

/* True if it holds for all threads that may be stopped, and if there are any. */
static bool holds_for_all(const struct candidates *candidates, const struct stops *stops,
                          bool (*holds)(const struct stop_record *record))
{
    size_t count = 0;

    for (size_t i = 0; i < candidates->count; i++) {
        const struct ranked *ranked = &candidates->list[i];
        const struct stop_record *record = stops_find(stops, ranked->thread.tid);
        if (ranked->looked_at && bounds_hold(ranked->bounds))
            continue;
        if (!record || !holds(record))
            return false;
        count++;
    }
    return count > 0 && candidates->later == 0;
}

bool unprovable_all(const struct candidates *candidates, const struct stops *stops)
{
    return holds_for_all(candidates, stops, stops_is_unprovable);
}

bool unprovable_so_far(const struct candidates *candidates, const struct stops *stops)
{
    return holds_for_all(candidates, stops, is_unproven_so_far);
}

/* Returns the record of the thread with the most results. */
static const struct stop_record *best_record(const struct candidates *candidates,
                                             const struct stops *stops)
{
    const struct stop_record *best = NULL;

    for (size_t i = 0; i < candidates->count; i++) {
        const struct stop_record *record = stops_find(stops, candidates->list[i].thread.tid);
        if (record && record->unproven && (!best || record->stops > best->stops))
            best = record;
    }
    return best;
}

static const char *write_sleep(const struct stop_record *record, char *out, size_t size)
{
    long nr = record->nr == SYS_restart_syscall ? record->at.nr : record->nr;
    const char *name = syscall_name(nr);

    if (record->nr < 0 && record->in_code)
        snprintf(out, size, "was running, %u times in code to be avoided", record->in_code);
    else if (record->nr < 0)
        snprintf(out, size, "was running");
    else if (name)
        snprintf(out, size, "was in %s", name);
    else
        snprintf(out, size, "was in system call %ld", nr);
    return out;
}

static const char *write_suspicion(const struct evidence *evidence, char *out, size_t size)
{
    if (evidence->proof == PROOF_STACK)
        snprintf(out, size, "its stack contains an address in %s",
                 evidence->what ? evidence->what : "code to be avoided");
    else if (evidence->proof == PROOF_HANDLER)
        snprintf(out, size, "its stack contains the address of a signal's return");
    else
        snprintf(out, size, "it %s", proof_text(evidence->proof));
    return out;
}

/* Returns "musl-program+0x1234", shortened. */
static const char *write_lost(const struct modules *modules, remote_addr at, char *out, size_t size)
{
    const struct module *module = at ? modules_at(modules, at) : NULL;

    if (module)
        snprintf(out, size, " at %.24s+%#llx", module_name(module),
                 (unsigned long long)(at - module->start));
    else
        out[0] = '\0';
    return out;
}

fault_code unprovable_fault(const struct injection *injection, const struct candidates *candidates,
                            struct fault *fault)
{
    const struct stop_record *record = best_record(candidates, injection->stops);
    bool no_library = injection->unwinder_tried && !injection->unwinder;
    char sleep[64], suspicion[96], lost[64];

    if (!record)
        return fault_set(fault, FAULT_INTERNAL, 0, "find a safe point", "no record");
    if (record->outside.proof == PROOF_NO_TLS)
        return fault_set(fault, FAULT_UNPROVABLE, 0, "find a safe point",
                         "thread %d is not a thread of the C library", (int)record->tid);
    write_suspicion(&record->outside, suspicion, sizeof suspicion);
    write_sleep(record, sleep, sizeof sleep);
    if (no_library)
        return fault_set(fault, FAULT_NO_UNWINDER, 0, "find a safe point",
                         "in %u of %u stops thread %d %s, and %s", record->nr_stops, record->stops,
                         (int)record->tid, sleep, suspicion);
    write_lost(injection->env.modules, record->outside.lost, lost, sizeof lost);
    if (record->outside.proof == PROOF_EXHAUSTED)
        return fault_set(fault, FAULT_UNPROVABLE, 0, "find a safe point",
                         "in %u of %u stops thread %d %s, and %s%s", record->nr_stops,
                         record->stops, (int)record->tid, sleep, suspicion, lost);
    return fault_set(fault, FAULT_UNPROVABLE, 0, "find a safe point",
                     "in %u of %u stops thread %d %s, and %s: of a frame, or an old word; neither "
                     "call frame information nor the code shows where it returns to%s",
                     record->nr_stops, record->stops, (int)record->tid, sleep, suspicion, lost);
}
