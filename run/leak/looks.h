/*
 * A series of looks at what a process has in use: its RSS, and from jemalloc's own records the
 * exact number of live objects of each size class, and each sampled one (jemalloc/extents/live.h).
 * Nothing is called and nothing is stopped.
 */
#pragma once

#include "base/table.h"
#include "jemalloc/extents/live.h"
#include "profile/samples.h"
#include "profile/verdict.h"
#include "run/attachment.h"

enum {
    LOOKS_MAX = 32,
    LOOKS_SEEN_MAX = 1 << 20, /* sampled objects, of all looks */
};

struct look {
    uint64_t at_ns;            /* CLOCK_MONOTONIC */
    uint64_t rss;              /* bytes, swapped ones included; 0: unknown */
    uint64_t *objects, *bytes; /* of each class; NULL: not read */
    uint64_t promoted;         /* small ones that take more room, because they are sampled */
};

/* A sampled object, and the times of the first and of the last look that saw it. */
struct look_object {
    uint64_t start, birth, first_ns, last_ns;
    uint32_t class, stack;
};

struct looks {
    struct live *live;             /* NULL: the records cannot be read, or not in time */
    const struct classes *classes; /* of the objects, with live */
    struct look list[LOOKS_MAX];
    size_t count;
    struct look_object *seen;
    size_t seen_count, seen_capacity;
    struct table table; /* of them */
    bool was_on;        /* it sampled already before the first look; set by the user */
    bool births;        /* of samples are known */
    bool too_many;      /* samples: those beyond LOOKS_SEEN_MAX are not in seen */
    struct live_look newest;
    uint64_t step_ns, next_ns, until_ns; /* next_ns: CLOCK_MONOTONIC of the next look */
    unsigned failed;                     /* looks, one after the other */
};

/* With samples, each sampled object is followed, too. Never fails. */
void looks_open(struct looks *looks, struct attachment *attachment, bool samples);
void looks_close(struct looks *looks);

/* Takes the first look now, as looks_add, and plans those until then, at even distances. */
void looks_begin(struct looks *looks, struct attachment *attachment, uint64_t until_ns);
/*
 * Takes a look, after attachment_rest or attachment_renew, and plans the next one. A failure
 * costs only this look, and so does a Ctrl-C; the one that has ended the time does not end the
 * last look, a second one does.
 */
void looks_take(struct looks *looks, struct attachment *attachment);
/* Does the same between attachment_renew and attachment_rest. */
void looks_add(struct looks *looks, struct attachment *attachment);
/* Forgets the oldest looks but so many, and what only they have seen. False: out of memory. */
bool looks_keep(struct looks *looks, size_t count);

/* True if there are counts of two looks or more. */
bool looks_counted(const struct looks *looks);
/* Returns the bytes of all objects at the last look. */
double looks_total(const struct looks *looks);
/*
 * Judges the looks, if looks_counted: the verdict has count stacks, the samples; of_stack and
 * stacks as struct presented has them. period: of the samples, 0: nothing was sampled. silent:
 * some threads allocate without being sampled. False: out of memory. verdict_free in each case.
 */
bool looks_judge(const struct looks *looks, uint64_t period, size_t count, bool silent,
                 const uint32_t *of_stack, size_t stacks, struct verdict *verdict);
/* The stacks of all samples seen, in their order, as a profile. heap_free in each case. */
bool looks_stacks(const struct looks *looks, struct heap_profile *profile);
/* Judges the RSS alone. */
struct verdict_total looks_judge_rss(const struct looks *looks);
