/*
 * What the stops of a target have shown, and what they may cost it.
 *
 * A stop that cannot show anything new is not made: a thread that has slept since
 * its last stop is where it was. A stop whose result cannot be told apart from
 * others like it, because the frames of the thread cannot be followed, is made ever
 * more rarely. And all
 * stops together may take the target an allowance, and then a small share of its
 * time.
 */
#pragma once

#include "attach/target.h"
#include "inject/safepoint.h"

enum { STOPS_THREADS = 1024 };

/* The stops of one thread. Times are CLOCK_MONOTONIC ns. */
struct stop_record {
    pid_t tid;               /* 0: none */
    bool unproven;           /* its last result, but for those in forbidden code */
    unsigned identical;      /* how often it has had the same one before, in the same place */
    uint64_t not_before;     /* no stop is worth while until then */
    struct proc_syscall at;  /* where it slept before its last stop; not asleep: not known */
    uint64_t switches;       /* and how often it had slept by then */
    unsigned stops_there;    /* stops since; each lets it sleep twice: stopped, and again */
    remote_addr pc, sp;      /* at its last stop */
    struct evidence last;    /* of its last stop */
    struct evidence outside; /* of the last one but for those in forbidden code */
};

/* All zero: nothing is known yet. Kept by the caller from one injection to the next. */
struct stops {
    struct stop_record records[STOPS_THREADS]; /* by tid modulo their number */
    int64_t credit_ns;  /* stopped time that the target may still be charged; negative: debt */
    uint64_t credit_at; /* when credit_ns was true; 0: never */
    /* When no thread waited for the lock of the address space (inject/occupied.h); 0: never. */
    uint64_t unoccupied_at;
    uint64_t watched_at; /* the end of the last watch by inject/stoppers.h; 0: never */
};

/* Returns the record of a thread; the record of another one may be lost for it. */
struct stop_record *stops_of(struct stops *stops, pid_t tid);

/* Before a stop: notes where the thread sleeps. */
void stops_look(struct stop_record *record, const struct thread *thread,
                const struct target *target, const struct proc_syscall *now);

/*
 * After a stop: notes its result, with pc and stack pointer at the stop. The result is unproven if
 * evidence->unfollowed, or if the thread is none of the C library.
 */
void stops_note(struct stop_record *record, const struct evidence *evidence, remote_addr pc,
                remote_addr sp);

/*
 * True if the thread has slept since its last stop, in the same place, so that
 * another would show the same: now is its present state from /proc.
 */
bool stops_is_unchanged(struct stop_record *record, const struct thread *thread,
                        const struct target *target, const struct proc_syscall *now);

/*
 * Charges a stop of the thread that took it ns of its time, in which the tool had
 * a CPU for work ns: the rest does not count against the allowance, so that a
 * search on a busy machine begins as quickly as on an idle one.
 */
void stops_charge(struct stops *stops, struct stop_record *record, uint64_t ns, uint64_t work);
/* Returns the ns until the target may be stopped again; 0: now. */
uint64_t stops_until_credit(struct stops *stops);
