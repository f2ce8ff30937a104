/*
 * All that can be known of the memory of a process within about a second, without a
 * call, without a stop and without a right: each part that cannot be read is left out,
 * with its cause. Of a process that has ended, its core file is read.
 */
#pragma once

#include "host/group_account.h"
#include "host/limits.h"
#include "host/resident.h"
#include "jemalloc/facts.h"
#include "profile/locations.h"
#include "profile/sites.h"
#include "run/access.h"
#include "run/account.h"
#include "run/core_file.h"
#include "run/explain/explain_next.h"
#include "run/explain/heap_kind.h"
#include "run/explain/own_limit.h"
#include "run/leak/parts.h"

enum parts_state {
    PARTS_READ,
    PARTS_DENIED,    /* err is the errno */
    PARTS_TOO_LARGE, /* reading them would keep the process from changing its mappings for long */
};

enum { EXPLAIN_CLASSES = 3 };

/* Objects of one size. */
struct explain_class {
    uint64_t size, objects, bytes;
};

/* The live objects, from jemalloc's own records, at the time of the look. */
struct explain_live {
    uint64_t in_use; /* bytes of objects, those that threads keep for their next ones included */
    uint64_t slack;  /* free space between them, in pages that have objects */
    double share;    /* of the memory whose records were read; below 1 the sums are estimates */
    uint64_t ns;     /* that it took */
    struct explain_class largest[EXPLAIN_CLASSES]; /* by bytes; bytes 0: fewer classes */
};

/* Memory that is outside jemalloc, or all of it where there is none. */
enum explain_outside {
    OUTSIDE_ANONYMOUS, /* other allocators, mappings without a file */
    OUTSIDE_BRK,
    OUTSIDE_STACKS,
    OUTSIDE_VARIABLES, /* changed pages of files */
    OUTSIDE_FILES,
    OUTSIDE_SHARED,
    OUTSIDE_DEVICES, /* buffers of the kernel: sockets, rings, devices */
    OUTSIDE_KINDS,
};

/* What the process of a core file had mapped, bytes. */
struct explain_mapped {
    uint64_t anonymous, files;
    uint64_t dumped; /* of both, in the core file */
    size_t mappings;
};

/* What grew in a longer look, as leak has it. */
struct explain_watch {
    struct leak leak;
    struct parts parts;
};

struct explain {
    struct attachment *attachment; /* borrowed */
    uint64_t look_ns;              /* a longer look than a second; 0: none */
    const struct core_file *core;  /* NULL: a running process */
    struct explain_mapped mapped;  /* with core */
    struct explain_watch watch;    /* with look_ns */
    struct proc_stat stat;         /* at the end */
    uint64_t age_ns;               /* of the process */
    size_t threads;

    struct resident resident; /* at the end */
    enum parts_state parts_state;
    int parts_err;
    struct resident_parts parts;
    /*
     * Memory of its own: anonymous and swapped; where the kernel does not count that apart, the
     * RSS and swap. Touching shared memory or a file makes only the RSS grow. Shared memory is
     * counted as well if the limit is seen to fill with it.
     */
    struct rise_points points, shared_points;
    struct rise rise; /* of it: the one growth that all words and forecasts are about */
    bool with_shared;
    bool objects_grow;             /* of jemalloc, steadily: in a longer look */
    bool parts_grow;               /* some part that is no file is larger: in a longer look */
    struct rise_points rss_points; /* the RSS */
    struct rise rss_rise;

    bool limited;         /* the next three are known */
    struct limit_use use; /* of the cgroup that is nearest to its limit, or of the machine */
    bool machine;         /* it is the machine */
    bool counts_rss;      /* that use is mostly this process, and counts its RSS */
    struct rise_points use_points;
    struct rise use_rise;       /* of use.used */
    uint64_t cached_before;     /* use.cached at the begin */
    struct group_account group; /* of that cgroup, where most of it is not the process */
    struct own_limit own_limit;
    uint64_t space; /* RLIMIT_AS, for resident.size, bytes; UINT64_MAX: none */
    struct group_events events;
    bool has_pressure, pressure_of_host;
    double stalled; /* share of the time in which some task of the cgroup waited for memory */

    struct fault refusal; /* why an attach would fail; FAULT_NONE: it is possible */
    struct fault no_heap; /* why jemalloc was not found; FAULT_NONE: it was */
    unsigned heaps;       /* other allocators: 1 << enum heap_kind */
    struct prof_state prof;
    struct fault no_account; /* why nothing is counted, not even in account.why */
    struct account account;
    struct account_sum sum; /* of it */
    enum explain_outside outside;
    uint64_t outside_bytes; /* of that kind, which has most of it */
    struct fault no_live;   /* why the next member is not known; FAULT_NONE: it is */
    struct explain_live live;
    struct fault no_profile; /* why its profile was not read; FAULT_NONE: it was */
    struct sites sites;      /* of the profile */

    enum explain_headline order[HEADLINES]; /* what matters most comes first */
    size_t order_count;
    struct explain_facts facts;
    enum explain_step step;
};

/* The attachment must outlive it. explain_free releases all, after a failure, too. */
void explain_init(struct explain *explain, struct attachment *attachment);
void explain_free(struct explain *explain);

/*
 * After attachment_find, which may have failed with `found`: reads everything and takes
 * the time of the look. FAULT_GONE and the like: the process has ended meanwhile.
 * FAULT_INTERRUPTED: a signal came.
 */
fault_code explain_read(struct explain *explain, const struct fault *found, struct fault *fault);
/* After core_file_open, which may have failed with `found`: there is no jemalloc in it. */
fault_code explain_read_core(struct explain *explain, const struct core_file *core,
                             const struct fault *found, struct fault *fault);

/* True if jemalloc's part is known. */
bool explain_counted(const struct explain *explain);
/* Returns the bytes that shares are of: the RSS; of a core file all of jemalloc's parts. */
uint64_t explain_whole(const struct explain *explain);
/*
 * Fills in the bytes of each kind of memory, jemalloc's included, from the counts of the kernel.
 * Returns the RSS of the same moment. Without details (false) only anonymous memory, which then
 * includes stacks and variables, files and shared memory are known.
 */
uint64_t explain_kinds(const struct explain *explain, uint64_t kinds[OUTSIDE_KINDS]);
bool explain_detailed(const struct explain *explain);
/* Returns the part that a fact is; ACCOUNT_PARTS: it is none. */
enum account_part explain_part(enum explain_headline fact);
/* Returns the bytes of a fact that is a part. */
uint64_t explain_amount(const struct explain *explain, enum explain_headline fact);

/* True if what its cgroup grows by is mostly pages of files, which the kernel can reclaim. */
bool explain_group_caches(const struct explain *explain);
/*
 * Returns the rate of its cgroup where that is notably more than its own, bytes; else 0. Page cache
 * fills no limit.
 */
double explain_group_rate(const struct explain *explain);
/*
 * True if the time to the limit is known, at that rate or at the one of the process; not if its
 * own limit is first.
 */
bool explain_time_left(const struct explain *explain, uint64_t *ns);
/* True if it grows towards its own limit, about, which comes before any other. */
bool explain_own_time_left(const struct explain *explain, uint64_t *ns);
/* Returns what is left below the limit, bytes; 0 if that is not known. */
uint64_t explain_space_left(const struct explain *explain);
