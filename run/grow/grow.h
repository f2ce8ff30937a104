/*
 * Who makes the RSS of a process grow: samples its page faults for a while, and
 * attributes the pages that it has gained to the stacks that touched them. Needs no
 * particular allocator, calls nothing and stops nothing.
 */
#pragma once

#include "perf/page_faults.h"
#include "perf/walk.h"
#include "run/access.h"
#include "run/attachment.h"
#include "run/grow/grow_kinds.h"
#include "run/grow/grow_profile.h"
#include "run/grow/grow_sites.h"

struct grow_request {
    uint64_t duration_ns; /* about: for how often it looks, and how long opening may take */
    uint64_t period;      /* one sample every N page faults of a thread; 0: adapts to the rate */
    bool quiet;           /* no page fault is sampled: grow->refused, without a reason */
};

/* The memory of the process at one end of the time. */
struct grow_end {
    struct proc_usage usage; /* of /proc/PID/status */
    uint64_t at_ns;          /* CLOCK_MONOTONIC */
};

/* Internal to the engine: what runs between grow_begin and grow_finish. */
struct growing {
    struct attachment *attachment;
    struct page_faults *faults; /* NULL: grow->refused says why */
    struct walker *walker;
    struct modules modules;   /* of the walker: the attachment replaces its own */
    uint64_t lost_before;     /* walks, when it was made */
    uint64_t walks_ns;        /* CPU time of all walks */
    uint64_t copies, shallow; /* of stacks of the present size; of them, with calls behind */
    uint64_t began, look_at;  /* CLOCK_MONOTONIC, ns */
    struct deadline limit;    /* of the present step; no timer */
};

struct grow {
    struct grow_request request;
    struct grow_pages pages;
    struct grow_sites sites;
    struct grow_sum sum;       /* after the end */
    unsigned heaps;            /* allocators besides jemalloc: 1 << enum heap_kind */
    struct grow_owners owners; /* what could not be told apart */
    struct grow_stacks stacks; /* of the profile */
    struct grow_end before, after;
    struct page_fault_lack lack;
    uint64_t walks, guessed, cut, lost; /* stacks: walked; with guessed calls, cut short, lost */
    uint32_t stack_bytes;               /* of each copy, in the end */
    uint64_t unwalked;                  /* left out, as their walks took too much CPU time */
    bool stacks_unsure;                 /* no time to look where the stacks of all threads are */
    struct fault
        refused; /* why no page fault is sampled: there are no stacks; FAULT_NONE: they are */
    struct fault blind; /* why its pagemap is refused: there is only the usage at both ends */
    struct fault ended; /* the process has ended, or is another program: what was seen until then */
    struct capture capture; /* the growth by stack, as a profile */
    struct growing growing;
};

/* The request is copied. grow_free ends the sampling, too, if that was not finished. */
void grow_init(struct grow *grow, const struct grow_request *request);
void grow_free(struct grow *grow);

/*
 * Begins to sample and takes the first look. The process was opened in any way; in between,
 * attachment_rest and attachment_renew may be called, and the attachment used. grow must not
 * move until grow_finish. Where the kernel refuses page faults or the pagemap, it goes on
 * without: grow->refused, grow->blind. FAULT_GONE, FAULT_EXECED; FAULT_INTERRUPTED,
 * FAULT_TOO_LATE: the attachment's deadline, before anything was seen.
 */
fault_code grow_begin(struct grow *grow, struct attachment *attachment, struct fault *fault);
/*
 * Takes the samples that there are, and looks if it is time. Without samples it waits for some:
 * at most until `until_ns` (CLOCK_MONOTONIC), 100 ms, or a signal. If the process has
 * ended or has executed another program, returns that fault, also in grow->ended: grow_finish
 * still gives what was seen until then.
 */
fault_code grow_step(struct grow *grow, uint64_t until_ns, struct fault *fault);
/* Takes the last look, ends the sampling and shares out what was gained. */
fault_code grow_finish(struct grow *grow, struct fault *fault);

/* After grow_finish: gives the attachment the newest modules, for names of code mapped meanwhile.
 */
void grow_hand_over_modules(struct grow *grow);

/* Returns the bytes of a number of pages. */
double grow_bytes(const struct grow *grow, double pages);
/* Returns for how long it was watched, ns. */
uint64_t grow_ns(const struct grow *grow);
/* Returns by how many bytes the resident memory has grown. */
double grow_rss(const struct grow *grow);
/*
 * Returns by how many bytes its anonymous memory has grown without what is in flight:
 * neither pages touched lately that are unlikely to stay, nor those of the first
 * moment that did not.
 */
double grow_net(const struct grow *grow);
/*
 * Returns two standard deviations of a stack's share of the growth of a kind, bytes: the sum
 * is exact, and its shares rest on a number of samples. GROW_KINDS: of all kinds but files, as
 * in the profile.
 */
double grow_error(const struct grow *grow, enum grow_kind kind, double bytes);

/* The new pages with objects of one size of jemalloc's, by who has touched them first. */
struct grow_touched {
    double *bytes; /* of each of grow->stacks; the caller frees it */
    double whole;  /* of all */
    size_t samples;
};

/* After grow_finish, of pages that are still there. False: out of memory. */
bool grow_touched(const struct grow *grow, uint64_t size, struct grow_touched *touched);
