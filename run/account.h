/*
 * Where the memory of a process is at one moment: jemalloc's counts set beside those of the
 * kernel. The one model behind stats, explain, frag, top and the metrics, so that a figure is
 * the same wherever it is shown.
 */
#pragma once

#include "jemalloc/extents/counted.h"
#include "jemalloc/reader/gauges.h"
#include "run/attachment.h"

enum account_source {
    ACCOUNT_RECORDS, /* counted now, from jemalloc's records, without a call */
    ACCOUNT_CALL,    /* counted now, by jemalloc itself in a call */
    ACCOUNT_AGED,    /* what jemalloc counted when something last asked it: reading.age_ns */
    ACCOUNT_NONE,    /* not known: why */
};

struct account {
    enum account_source source;
    struct build build;
    struct counted counted;        /* of any source; ACCOUNT_NONE: known is 0 */
    struct gauges_reading reading; /* ACCOUNT_AGED: its age and epoch */
    struct fault why;              /* unless ACCOUNT_RECORDS: why the records were not counted */
    struct proc_usage process;     /* of the same moment, but with ACCOUNT_AGED */
    enum usage_source rss_source;
};

/*
 * The parts that the RSS consists of, those of jemalloc first. What is counted but not in
 * memory (never touched, or swapped out) is account_absent.
 */
enum account_part {
    ACCOUNT_IN_USE,   /* by the program: allocated - sampling */
    ACCOUNT_SAMPLING, /* what sampling costs */
    ACCOUNT_BETWEEN,  /* free space between objects: active - allocated */
    ACCOUNT_PAGES,    /* free pages that are not returned yet: dirty and muzzy */
    ACCOUNT_PINNED,   /* free pages that extent hooks have pinned */
    ACCOUNT_OWN,      /* jemalloc's own data */
    ACCOUNT_OUTSIDE,  /* code, stacks, files, other allocators: RSS - resident */
    ACCOUNT_PARTS,
};

struct account_sum {
    bool known[ACCOUNT_PARTS];
    uint64_t bytes[ACCOUNT_PARTS];
    uint64_t absent; /* of these: counted by jemalloc but not in memory */
    uint64_t whole;  /* their sum: RSS + absent. Shares are of this, so from 0 to 100 % */
};

/*
 * After attachment_find. By request.way: WAY_DEFAULT from the records, else by a call, for which
 * the plan is made if there is none; WAY_MEMORY from the records, else what was counted last;
 * WAY_CALL by a call. That nothing is known is no fault (ACCOUNT_NONE) unless a call failed.
 */
fault_code account_read(struct account *account, struct attachment *attachment,
                        struct fault *fault);

struct account_sum account_sum_up(const struct account *account);
