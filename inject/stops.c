#include "inject/stops.h"
#include "host/task.h"

#include <string.h>

enum {
    ALLOWANCE_NS = 30000000, /* stopped time of about a thousand stops */
    SHARE = 100,             /* later at most this part of the time */
    CHARGE_MAX_NS = 10000000,
    SIDE_NS = 20000, /* what a stop costs a thread besides: it loses its CPU and its caches */
    IDENTICAL_NS = 1000000, /* pause after identical results; doubles with each */
    IDENTICAL_DOUBLINGS = 9,
};

struct stop_record *stops_of(struct stops *stops, pid_t tid)
{
    struct stop_record *record = &stops->records[(unsigned)tid % STOPS_THREADS];

    if (record->tid != tid)
        *record = (struct stop_record){.tid = tid};
    return record;
}

/* ---- where a thread sleeps ---- */

void stops_look(struct stop_record *record, const struct thread *thread,
                const struct target *target, const struct proc_syscall *now)
{
    struct proc_status status;

    record->at = *now;
    record->stops_there = 0;
    record->switches = 0;
    if (now->asleep && thread_status(target->proc, target->pid, thread->tid, &status) == 0)
        record->switches = status.voluntary_switches;
}

/*
 * At its stop a thread sleeps once, and once more when it goes on with its system
 * call. If it has slept more often, it has been elsewhere.
 */
bool stops_is_unchanged(struct stop_record *record, const struct thread *thread,
                        const struct target *target, const struct proc_syscall *now)
{
    const enum proof proof = record->last.proof;
    /* What else than the thread itself may change such a result. */
    bool depends_on_others = proof == PROOF_SYNCCALL || proof == PROOF_NO_STATUS ||
                             proof == PROOF_RSEQ || proof == PROOF_UNREADABLE ||
                             proof >= PROOF_STRICT;
    struct proc_status status;
    uint64_t slept;

    if (!record->stops_there || !record->switches || !now->asleep || now->sp != record->sp ||
        now->pc != record->pc || record->at.sp != now->sp || depends_on_others ||
        thread_status(target->proc, target->pid, thread->tid, &status))
        return false;
    slept = status.voluntary_switches; /* 0: unknown, as it has slept at least once */
    return slept && slept - record->switches <= 2 * (uint64_t)record->stops_there;
}

/* ---- what a thread's stops show ---- */

void stops_note(struct stop_record *record, const struct evidence *evidence, remote_addr pc,
                remote_addr sp)
{
    bool same = record->unproven && record->pc == pc && record->sp == sp &&
                record->outside.proof == evidence->proof &&
                record->outside.address == evidence->address;
    /* It is in forbidden code, and elsewhere a moment later; or a walk may show more. */
    bool says_nothing = evidence->proof == PROOF_PC || evidence->unwalked ||
                        (evidence->proof == PROOF_STACK && !evidence->unfollowed);
    unsigned doublings = record->identical;

    record->last = *evidence;
    record->pc = pc;
    record->sp = sp;
    if (says_nothing) {
        record->not_before = 0;
        return;
    }
    record->outside = *evidence;
    record->unproven = evidence->unfollowed || evidence->proof == PROOF_NO_TLS;
    if (!record->unproven) {
        record->identical = 0;
        return;
    }
    record->identical = same ? record->identical + 1 : 0;
    record->not_before = 0;
    if (same)
        record->not_before =
            clock_now() + ((uint64_t)IDENTICAL_NS
                           << (doublings < IDENTICAL_DOUBLINGS ? doublings : IDENTICAL_DOUBLINGS));
}

/* ---- what they cost ---- */

static void renew_credit(struct stops *stops)
{
    uint64_t now = clock_now(), earned = (now - stops->credit_at) / SHARE;

    if (!stops->credit_at || earned >= ALLOWANCE_NS)
        stops->credit_ns = ALLOWANCE_NS;
    else
        stops->credit_ns += (int64_t)earned;
    if (stops->credit_ns > ALLOWANCE_NS)
        stops->credit_ns = ALLOWANCE_NS;
    stops->credit_at = now;
}

void stops_charge(struct stops *stops, struct stop_record *record, uint64_t ns, uint64_t work)
{
    record->stops_there++;
    renew_credit(stops);
    if (stops->credit_ns > 0 && work < ns)
        ns = work;
    stops->credit_ns -= (int64_t)(ns < CHARGE_MAX_NS ? ns : CHARGE_MAX_NS) + SIDE_NS;
}

uint64_t stops_until_credit(struct stops *stops)
{
    renew_credit(stops);
    return stops->credit_ns < 0 ? (uint64_t)-stops->credit_ns * SHARE : 0;
}
