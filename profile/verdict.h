/*
 * What grows, from exact counts of live objects by size class and from the sampled ones among
 * them: which stacks must have grown, by how much at least and at most. The counts are the
 * bound: no stack is said to grow by more than its classes have, since samples that replace
 * older objects, which no sample knows, look like growth.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* verdict.leading: no class alone, all of them together. */
enum { VERDICT_ALL_CLASSES = UINT32_MAX };

/* A sampled object that was alive at one look or more; start and birth identify it. */
struct verdict_object {
    uint64_t start, birth;
    uint32_t class, stack; /* TABLE_NONE: a stack that could not be read */
    uint32_t first, last;  /* numbers of the first and of the last look that saw it */
};

/* The live objects at one moment. */
struct verdict_look {
    double seconds;                  /* since the first look */
    const uint64_t *objects, *bytes; /* of each class */
};

struct verdict_input {
    const uint64_t *sizes; /* of each class, bytes */
    size_t class_count;
    double period;                    /* mean bytes between two samples; 0: nothing was sampled */
    const struct verdict_look *looks; /* in order of time */
    size_t look_count;
    struct verdict_object *objects; /* sampled; in any order; may be reordered */
    size_t object_count;
    size_t stack_count;
    /* CLOCK of birth at the first look; births after it are of the window. 0: births are unknown */
    uint64_t began_ns;
    bool from_start;        /* sampling was on from the start of the process, all the time */
    bool threads_unsampled; /* some threads do not sample: no stack is named for certain */
};

enum verdict_kind {
    VERDICT_TOO_SHORT, /* fewer looks than a verdict needs */
    VERDICT_UNSURE,    /* nothing is seen to grow, but verdict.bound is too much to say so */
    VERDICT_NOTHING,   /* nothing grows by more than verdict.bound */
    VERDICT_UNSTEADY,  /* the whole has grown, not steadily: no class grows for certain */
    VERDICT_ONCE,      /* one step, of verdict.leading */
    VERDICT_CLASSES,   /* classes grow; nothing is sampled that could say which stacks */
    VERDICT_ONE_OF,    /* a class grows; more than one stack may be it, or none that is sampled */
    VERDICT_GROWS,     /* verdict.grows stacks grow */
};

/* In bytes, over the whole time. */
struct verdict_stack {
    double low, high, estimate; /* of its growth, 99 % each */
    size_t born, died;          /* samples: of the window and alive at its end; of those before */
    uint32_t class;             /* the class with most of its growth */
    bool grows;
    bool candidate; /* of verdict.leading, with VERDICT_ONE_OF and VERDICT_ONCE */
};

struct verdict_class {
    double growth, error; /* bytes; exact, but for what caches of threads hide: its error */
    bool grows;
    bool explained;     /* a stack that grows has objects of it */
    bool unseen;        /* a stack without a sample may be it */
    bool unsampled;     /* it grows by more than the samples can: in threads that do not sample */
    double older;       /* objects without a sample, as estimated, at the end */
    double older_per_s; /* of them, freed each second */
    double wait_s;      /* until stacks can be told apart, about; < 0: unknown */
};

struct verdict {
    enum verdict_kind kind;
    double seconds;
    double growth, error; /* bytes, of all classes; exact, but for what caches of threads hide */
    double bound;         /* VERDICT_NOTHING, _UNSURE: what may have grown unseen, bytes */
    bool unseen;          /* VERDICT_ONE_OF: a stack without a sample may be it */
    uint32_t leading;     /* the class that grows most, or VERDICT_ALL_CLASSES */
    size_t grows;         /* stacks */
    struct verdict_stack *stacks;
    struct verdict_class *classes; /* those of the input */
};

/* False: out of memory. verdict_free in each case. */
bool verdict_make(struct verdict *verdict, struct verdict_input *input);
void verdict_free(struct verdict *verdict);

/* Returns about how long to watch, in seconds, so that a bound like this one is no VERDICT_UNSURE.
 */
double verdict_watch(double bound);

/* The verdict on one series of bytes: jemalloc's total, the RSS. */
struct verdict_total {
    enum verdict_kind kind; /* never VERDICT_CLASSES, VERDICT_ONE_OF */
    double seconds;
    double growth, error;
    double bound; /* no part of it has grown by more, unless others shrank */
};

/* The seconds ascend. */
struct verdict_total verdict_of_total(const double *seconds, const double *bytes, size_t count);
