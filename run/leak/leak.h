/*
 * What grows in a process, from the strongest evidence that it gives: exact counts of its objects
 * by size, samples of profiling and sampled page faults by stack, and pages for what is outside
 * the allocator's heap.
 */
#pragma once

#include "run/between.h"
#include "run/grow/grow.h"
#include "run/leak/grown_class.h"
#include "run/leak/looks.h"
#include "run/sampling.h"

struct leak_request {
    uint64_t duration_ns;
    uint64_t settle_ns;        /* without sampling, before the second profile; 0: none */
    bool by_thread;            /* the points between keep the counts of threads */
    bool impatient;            /* once prof.active is restored, a signal ends the process at once */
    bool no_faults;            /* page faults are not sampled */
    bool only_faults;          /* without them there is no answer */
    bool quiet;                /* the pages are looked at, but no page fault is sampled */
    uint64_t period;           /* one sample every N page faults; 0: adapts to the rate */
    void (*looked)(void *ctx); /* called after each look; may be NULL */
    void *ctx;
};

/* A profile, and its moment. */
struct leak_end {
    struct capture capture;
    uint64_t rss;   /* bytes; 0: unknown */
    uint64_t at_ns; /* CLOCK_MONOTONIC */
};

struct leak {
    struct leak_request request;
    bool profiled; /* before and after have profiles */
    struct sampling sampling;
    struct leak_end before, after;
    double sampled;         /* bytes that the profile at the end represents: by leak_read */
    struct between between; /* while it sampled */
    bool silent;            /* threads may allocate without being sampled */
    struct looks looks;
    bool judged; /* verdict is made: by the exact counts */
    struct verdict verdict;
    struct grown_class grown[GROWN_CLASSES]; /* set by the user, with grown_classes_find */
    struct grow grow;
    bool grows;               /* grow has seen something */
    struct fault no_grow;     /* why not; FAULT_NONE: it was not asked for */
    struct fault ended;       /* the process has ended, or is another program: seen until then */
    uint64_t began, ended_ns; /* CLOCK_MONOTONIC: of the time that was watched */
    uint64_t waited_ns;       /* the same or, if it settles, the end of that */
    bool interrupted;
};

/* The request is copied. leak_free after a failure, too. */
void leak_init(struct leak *leak, const struct leak_request *request);
void leak_free(struct leak *leak);

/*
 * Samples for a while with a profile at each end, and some between, beside looks and page
 * faults. sampling_settle in each case. FAULT_PROF_*: this process cannot profile, and
 * leak_watch may follow.
 */
fault_code leak_run(struct leak *leak, struct attachment *attachment, struct fault *fault);
/*
 * The same without profiling, for any process that attachment_find or attachment_map has opened.
 * If the process ends, leak->ended is set, and what was seen is the result.
 */
fault_code leak_watch(struct leak *leak, struct attachment *attachment, struct fault *fault);

/*
 * With profiles: present_read of the difference, whose trends are judged by the exact counts, else
 * by the growth of the RSS. Releases the texts. present_free in each case.
 */
fault_code leak_read(struct leak *leak, struct attachment *attachment,
                     struct presentation *presentation, struct presented *presented,
                     struct fault *fault);
/* Without: judges the looks alone. */
void leak_judge(struct leak *leak);

/* Bytes that the program itself has allocated at the end. */
double leak_covered_whole(const struct leak *leak);
/* The part of them that the samples represent, in percent. */
double leak_covered_percent(const struct leak *leak);
/* How long it watched. */
double leak_seconds(const struct leak *leak);
