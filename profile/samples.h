/*
 * One profile, or two in comparison, ready to be shown: filtered stacks of
 * locations and their amounts, with the sampling undone. A comparison may have
 * profiles between the two, which show how much is freed and allocated again.
 */
#pragma once

#include "profile/filter.h"
#include "profile/trend.h"

/*
 * The calls of all samples, with inlined ones: more than the frames of the file, because a stack
 * counts once for each of its threads, and a frame may stand for many inlined calls.
 */
enum { SAMPLES_CALLS_LIMIT = 40 << 20 };

/* In pprof's order. */
enum value {
    VALUE_TOTAL_OBJECTS, /* alloc_objects */
    VALUE_TOTAL_BYTES,   /* alloc_space */
    VALUE_OBJECTS,       /* inuse_objects */
    VALUE_BYTES,         /* inuse_space */
    VALUE_KINDS,
};

/* What the trends rest on. */
enum trend_evidence {
    EVIDENCE_SAMPLES, /* alone: objects that replace those that no sample knows look like growth */
    EVIDENCE_TOTAL,   /* bounded by the growth of the whole */
    EVIDENCE_COUNTS,  /* bounded by exact counts of live objects (profile/verdict.h) */
};

/* Sums do not overflow: they saturate. */
struct amount {
    int64_t now, base; /* bytes or objects; base: 0 without a comparison */
    double variance;   /* of now - base: from the sampling, and in a series from churn */
};

struct sample {
    uint32_t first, depth; /* range in calls; innermost first */
    uint32_t stack;  /* of the profile; in a comparison, of the first one that has the calls */
    uint32_t thread; /* index in threads, or TABLE_NONE; in a comparison always TABLE_NONE */
    uint64_t size;   /* mean bytes of an object of the stack */
    struct amount values[VALUE_KINDS];
};

struct sample_thread {
    uint64_t uid;
    const char *name; /* "": none */
};

struct samples_options {
    struct filter filter;
    bool by_thread;      /* one sample per stack and thread */
    bool thread_frames;  /* with by_thread: the thread's name as the outermost call */
    bool keep_allocator; /* keep the allocator's own calls */
    bool keep_plumbing;  /* keep innermost calls of standard libraries, which their caller made */
    bool short_names;    /* functions are groups by their short names */
};

struct samples {
    struct locations locations;
    uint32_t first_location; /* of the profile's addresses; those of the base are anywhere */
    uint32_t *calls;         /* indices in locations */
    size_t call_count, call_capacity;
    struct sample *list;
    size_t count, capacity;
    struct sample_thread *threads; /* of the profile, not of the base */
    size_t thread_count;
    uint64_t period; /* bytes; also of the base, unless it has another: base_period */
    uint64_t base_period;
    bool compares, accumulates;
    bool same_process;          /* all profiles are of one process, as far as they tell */
    struct trend_point *points; /* bytes in use: point_count for each sample, in order of time */
    size_t point_count;         /* number of profiles; 0: compares nothing */
    size_t point_capacity;
    struct trend *trends; /* of bytes in use, in a comparison: one for each sample */
    size_t tests;         /* for trends: how many share the error */
    enum trend_evidence evidence;
    struct amount sampled, sampled_total; /* objects of the list as sampled: in use, accumulated */
    struct amount filtered[VALUE_KINDS];  /* of the stacks that the filter leaves out */
    size_t filtered_count;                /* those stacks, without those of the base */
    unsigned matched;    /* FILTER_FOCUS ...: patterns that a call of any stack matches */
    size_t cut, trimmed; /* stacks that jemalloc has truncated; calls that were left out */
    size_t folded;       /* calls of standard libraries that were left out, of all stacks */
    bool too_many;       /* not built: the calls are more than SAMPLES_CALLS_LIMIT */
};

/*
 * Builds the samples of a profile, minus those of base unless it is NULL.
 * symbols, base_symbols: see locations_symbols. None of the arguments is kept.
 * False: out of memory, or too_many is set. Call samples_free in every case.
 */
bool samples_build(struct samples *samples, const struct samples_options *options,
                   const struct heap_profile *profile, struct symbols *symbols,
                   const struct heap_profile *base, struct symbols *base_symbols);

/* A profile of a series. */
struct samples_part {
    const struct heap_profile *profile;
    struct symbols *symbols; /* those of the base may be used for several parts */
    double seconds;          /* since the base */
    bool adds;               /* the last ones: their amounts are added to those of the first */
};

/*
 * Builds the samples of parts[0], minus those of parts[1] unless count is 1;
 * further parts are of the time between the two, in its order. None of the
 * arguments is kept. False: out of memory, or too_many is set. Call samples_free in every case.
 *
 * stacks: NULL, or in a comparison a part whose amounts do not count; of_stack gets for each of its
 * stacks the number of the sample that has its calls, TABLE_NONE: it is filtered.
 */
bool samples_build_series(struct samples *samples, const struct samples_options *options,
                          const struct samples_part *parts, size_t count,
                          const struct samples_part *stacks, uint32_t *of_stack);
void samples_free(struct samples *samples);

/*
 * Returns the name of a function for a view with little room: short if the
 * options asked for it. Functions with the same one are one row wherever rows
 * are functions. function->name is the full name.
 */
const char *samples_shown_name(const struct samples *samples, const struct function *function);
/* Returns the points of a sample of a comparison: samples->point_count, in order of time. */
const struct trend_point *samples_points(const struct samples *samples, size_t number);

static inline int64_t add_saturating(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN + 1 : INT64_MAX;
    return sum;
}

/* *sum += *part */
static inline void amount_add(struct amount *sum, const struct amount *part)
{
    sum->now = add_saturating(sum->now, part->now);
    sum->base = add_saturating(sum->base, part->base);
    sum->variance += part->variance;
}

/* now - base */
int64_t amount_growth(const struct amount *amount);
/* Returns two standard deviations: the difference that the sampling alone may cause; 0: exact. */
double amount_error(const struct amount *amount);
/*
 * Returns the error of one of the rows of a comparison: all rows together are within
 * theirs in 95 of 100 cases. Without a comparison the same as amount_error.
 */
double samples_error(const struct samples *samples, const struct amount *amount);
/* Returns the sum of all samples. */
struct amount samples_total(const struct samples *samples, enum value value);
/* Returns the sum of the whole profile: shares are of it, whatever the filter leaves out. */
struct amount samples_whole(const struct samples *samples, enum value value);
