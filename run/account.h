/*
 * Where the memory of a process is at one moment: jemalloc's counts set beside those of the
 * kernel. The one model behind stats, explain, frag, top and the metrics, so that a figure is
 * the same wherever it is shown.
 */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/extents/counted.h"
#include "run/attachment.h"

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
};

/*
 * The parts that the RSS consists of, those of jemalloc first. What is counted but not in
 * memory (never touched, or swapped out) is account_absent.
 */
enum account_part {
    ACCOUNT_IN_USE,   /* by the program: its objects, without what sampling adds */
    ACCOUNT_SAMPLING, /* what sampling costs */
    ACCOUNT_BETWEEN,  /* free space between objects: active - in use - sampling */
    ACCOUNT_PAGES,    /* free pages that are not returned yet: dirty and muzzy */
    ACCOUNT_PINNED,   /* free pages that extent hooks have pinned */
    ACCOUNT_OWN,      /* jemalloc's own data */
    ACCOUNT_OUTSIDE,  /* code, stacks, files, other allocators: RSS - those of jemalloc */
    ACCOUNT_PARTS,
};

struct account_sum {
    bool known[ACCOUNT_PARTS];
    uint64_t bytes[ACCOUNT_PARTS];
    uint64_t present[ACCOUNT_PARTS]; /* of bytes: in memory, by the page tables; if has_present */
    bool has_present;
    uint64_t absent; /* of these: counted by jemalloc but not in memory */
    uint64_t whole;  /* their sum: RSS + absent. Shares are of this, so from 0 to 100 % */
    bool has_rss;    /* false: absent and outside are not known, and whole is without them */
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
 * and rss_source stay 0.
 */
fault_code account_count(struct account *account, struct attachment *attachment,
                         struct fault *fault);

struct account_sum account_sum_up(const struct account *account);
