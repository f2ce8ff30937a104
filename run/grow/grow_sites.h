/*
 * Page faults of a process by the stack and thread that caused them, and which of
 * the pages that it has gained are theirs.
 *
 * The exact number of gained pages is known from struct grow_pages; the samples only
 * share it out. A sample counts for a page as long as it is the latest one of it and
 * the page has been there since: pages that were given back and touched again belong
 * to who touched them last. In each piece of 2 MiB the gained pages are shared among its
 * samples, kind by kind, by their weights; the pages of pieces without a sample among the
 * samples of the same mapping, else of the same kind. So a region that is freed and touched a
 * million times counts as the few pages that it holds at the end.
 *
 * Pages of the last fifth of the time have not shown yet that they stay. Of them, each
 * stack is given the part that its pages stayed for so far; the rest is in flight.
 */
#pragma once

#include "base/table.h"
#include "run/grow/grow_pages.h"

enum {
    GROW_SITES_MAX = 1 << 18,
    GROW_SAMPLES_MAX = 1 << 21,
    GROW_CALLS_MAX = 1 << 23, /* of all stacks */
};

/* A stack in a thread. */
struct grow_site {
    uint32_t first, depth; /* range in calls */
    pid_t tid;
    remote_addr sp;            /* of its last sample */
    double faults;             /* pages touched, as the samples say, but for those of files */
    double live;               /* of them: those that are still there */
    double file_faults;        /* in pages of files */
    double stayed[GROW_KINDS]; /* gained pages, seen for a while */
    double young[GROW_KINDS];  /* gained pages of the last fifth of the time */
    size_t samples;            /* of gained pages */
};

struct grow_sample {
    remote_addr page;
    uint64_t time_ns;
    uint32_t site;
    double weight; /* pages that it stands for */
    uint64_t size; /* of jemalloc's objects in the page, bytes; 0: of none, or unknown */
};

struct grow_sites {
    struct grow_site *list;
    size_t count, capacity;
    remote_addr *calls; /* innermost first */
    size_t call_count, call_capacity;
    struct table table;
    struct grow_sample *samples; /* of pages that may still be there */
    size_t sample_count, sample_capacity;
    uint64_t seen;    /* samples so far, of any page */
    uint64_t dropped; /* that did not find space */
    double weight;    /* of all samples */
    double other;     /* pages touched in mappings of files */
    size_t file_samples;
    bool no_memory;
};

/* What became of the pages of a kind, or of several. */
struct grow_part {
    uint64_t before, now;       /* at both ends, exact */
    uint64_t gained, lost;      /* exact; but of files only what they have more or less */
    double by_stack, in_flight; /* of gained */
    double nobody;              /* of gained: no sample is near */
    size_t samples;             /* on which by_stack rests */
};

/* In pages; all but `parts` and `again` of the memory of the process alone. */
struct grow_sum {
    struct grow_part parts[GROW_KINDS];
    uint64_t gained, lost;
    double by_stack, in_flight;
    uint64_t lost_late; /* of lost: after the first fifth of the time */
    double nobody;
    double again; /* page faults of pages that were given back meanwhile */
    size_t samples;
    uint64_t young_ns; /* length of the last fifth */
};

/* Cannot fail. A sample for which there is no memory counts as dropped. */
void grow_sites_init(struct grow_sites *sites);
void grow_sites_free(struct grow_sites *sites);

/* A sampled page fault of a thread with this stack pointer; calls: innermost first. */
void grow_sites_add(struct grow_sites *sites, const struct grow_pages *pages,
                    const struct grow_sample *sample, pid_t tid, remote_addr sp,
                    const remote_addr *calls, size_t depth);
/* After a look: forgets the samples of pages that are not there, or were touched again. */
void grow_sites_thin(struct grow_sites *sites, const struct grow_pages *pages);
/* Says of the pages from start to end which objects they have. After grow_sites_thin. */
void grow_sites_tell_size(struct grow_sites *sites, remote_addr start, remote_addr end,
                          uint64_t size);
/*
 * After the last look: shares out the gained pages. counted: all page faults, to which the
 * weights of the samples are scaled; 0: unknown. False: out of memory.
 */
bool grow_sites_share(struct grow_sites *sites, const struct grow_pages *pages, uint64_t counted,
                      struct grow_sum *sum);
/* Then: shares out the pages of files, of which there were so many at both ends. */
void grow_sites_share_files(struct grow_sites *sites, uint64_t before, uint64_t now,
                            struct grow_sum *sum);

/* The growth of a kind by a stack: gained pages without what is in flight. */
double grow_site_part(const struct grow_site *site, enum grow_kind kind);
/* Of all kinds but files. */
double grow_site_growth(const struct grow_site *site);
