/*
 * Where the memory of a process is at one moment: jemalloc's counts set beside those of the
 * kernel. The one model behind stats, explain, frag, top and the metrics, so that a figure is
 * the same wherever it is shown.
 */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/extents/counted.h"
#include "run/attachment.h"

enum { ACCOUNT_NAME = 64 };

enum account_source {
    ACCOUNT_RECORDS, /* counted now, from jemalloc's records, without a call */
    ACCOUNT_CALL,    /* counted now, by jemalloc itself in a call */
    ACCOUNT_NONE,    /* not known: why */
};

struct account {
    enum account_source source; /* of the count of objects */
    struct build build;
    struct counted counted;    /* ACCOUNT_NONE: known is 0 */
    struct fault why;          /* unless it is whole: why the records did not give the counts */
    struct proc_usage process; /* of the same moment */
    enum usage_source rss_source;
    bool has_process; /* false: it has ended, and the kernel has no counts */
    size_t others;    /* jemallocs beside the one that is counted; 0 also if none was looked for */
    bool has_other;   /* the next two are known */
    uint64_t other;   /* bytes in memory of those */
    size_t largest;   /* that has most of it, as --instance counts them */
    char module[ACCOUNT_NAME]; /* which it is in */
};

/*
 * The parts that the RSS consists of, those of jemalloc first. What is counted but not in
 * memory (never touched, or swapped out) is account_sum.absent.
 */
enum account_part {
    ACCOUNT_IN_USE,   /* by the program: its objects, without what sampling adds */
    ACCOUNT_SAMPLING, /* what sampling costs */
    ACCOUNT_SLABS,    /* free space between objects; with padding where that is not known */
    ACCOUNT_PADDING,  /* free space behind large objects */
    ACCOUNT_PAGES,    /* free pages that are not returned yet: dirty and muzzy */
    ACCOUNT_PINNED,   /* free pages that extent hooks have pinned */
    ACCOUNT_RETAINED, /* returned before, but in memory: as the kernel makes huge pages */
    ACCOUNT_OWN,      /* jemalloc's own data */
    ACCOUNT_OTHER,    /* of the other jemallocs */
    ACCOUNT_OUTSIDE,  /* code, stacks, files, other allocators: what remains of the RSS */
    ACCOUNT_PARTS,
};

struct account_sum {
    bool known[ACCOUNT_PARTS];
    uint64_t bytes[ACCOUNT_PARTS]; /* in memory; of a core file as counted */
    uint64_t absent;               /* counted by jemalloc beyond these */
    uint64_t whole;                /* the RSS: shares are of it. Of a core file the sum of all */
};

/*
 * The door to the gauges, after attachment_find or attachment_look_recorded: from the records, else
 * by a call, as request.way allows. What sampling adds is from the records in any case. That
 * nothing is known is no fault (ACCOUNT_NONE) unless a call failed.
 */
fault_code account_read(struct account *account, struct attachment *attachment,
                        struct fault *fault);

/* The same from the records alone, without a call. */
fault_code account_read_records(struct account *account, struct attachment *attachment,
                                struct fault *fault);

/* True if the parts that the RSS consists of are known. */
bool account_is_whole(const struct account *account);

/*
 * As account_read_records, but without the kernel's counts, which may take it long: process
 * and rss_source stay 0. All three read the mappings again, and then count: what the kernel counts
 * is to be read next, as then both are of about the same moment.
 */
fault_code account_count(struct account *account, struct attachment *attachment,
                         struct fault *fault);

/*
 * Sets apart what is in memory: by the page tables where these were read, else what is absent is
 * taken from those parts first in which nothing was ever written, and then from free pages: nothing
 * is promised that is not there.
 */
struct account_sum account_sum_up(const struct account *account);

/* Free memory that is not returned, as far as it is in memory: what frag names. */
uint64_t account_waste(const struct account_sum *sum);
/* Less is no waste to speak of, nor is less than a tenth of the process. */
enum { ACCOUNT_WASTE_LEAST = 1 << 20 };
/* True if frag has something to say of it. */
bool account_is_wasteful(const struct account_sum *sum);
/* Returns the part that has most of what is free; ACCOUNT_PARTS: there is little of it. */
enum account_part account_most_waste(const struct account_sum *sum);
