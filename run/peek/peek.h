/*
 * What the objects of a heap are, by a random sample: which size classes they are of
 * (jemalloc/extents/extents.h), and what they begin with (contents/contents.h). Nothing is
 * called and nothing is stopped; only pages that are in memory are read.
 */
#pragma once

#include "contents/contents.h"
#include "jemalloc/extents/extents.h"
#include "run/attachment.h"

enum {
    PEEK_SAMPLES = 20000, /* by default */
    PEEK_SAMPLES_MAX = 300000,
    PEEK_CLASSES_MAX = 512, /* of sizes; jemalloc has 232 with pages of 4 KiB */
    PEEK_SHOWN = 32,        /* bytes that are kept of an object, or of its text */
    PEEK_PREFIXES = 3,
};

/* The objects of one size. */
struct peek_class {
    uint64_t size;    /* bytes of an object */
    uint64_t objects; /* in use or kept by threads, in the memory that was looked at */
    size_t sampled;   /* whose contents were judged */
    size_t freed;     /* chosen, but released before they were read */
    /* while it is sampled: */
    remote_addr *reservoir;
    size_t kept, capacity, wanted;
    uint64_t next; /* number of the object that is taken next */
    double weight; /* of Algorithm L */
};

enum peek_state { PEEK_CHOSEN, PEEK_JUDGED, PEEK_SWAPPED, PEEK_UNWRITTEN, PEEK_FREED };

struct peek_sample {
    remote_addr addr;
    uint32_t of; /* index of its class */
    enum peek_state state;
    struct content content;
    const char *detail; /* of the row; "": none */
    unsigned char shown[PEEK_SHOWN];
    uint8_t shown_len;
};

/* Texts of a row that begin in the same way. */
struct peek_prefix {
    size_t len;   /* bytes */
    size_t hits;  /* samples */
    size_t first; /* of the row's samples, one of them */
};

/* Objects of the same kind: of one size class, or of all. */
struct peek_row {
    uint64_t size; /* bytes of an object; 0: of several sizes */
    uint32_t of;   /* index of its class */
    bool absent;   /* not read: its page is not in memory; detail says why */
    enum content_kind kind;
    const char *detail; /* "": none */
    bool in_middle;     /* the detail is of the middle: see struct content */
    unsigned at;        /* bytes before the vtable's address */
    size_t hits;        /* samples */
    double objects, bytes;
    double objects_error, bytes_error; /* half of the interval that is right 95 times of 100 */
    char shape[CONTENT_SHAPE + 1];     /* the commonest; "": it says nothing */
    size_t shape_hits;
    struct peek_prefix prefixes[PEEK_PREFIXES];
    size_t prefix_count;
    size_t first; /* index of its samples, which are next to each other; of one size only */
};

struct peek {
    struct peek_class classes[PEEK_CLASSES_MAX];
    size_t class_count;
    struct peek_sample *samples; /* sorted by row */
    size_t sample_count;
    struct peek_row *rows; /* of each size, the largest first, what is not in memory last */
    size_t row_count;
    struct peek_row *totals; /* of all sizes, in the same order */
    size_t total_count;
    struct peek_row *kinds; /* the same by kind alone */
    size_t kind_count;
    struct extents_pass pass;
    double objects, bytes; /* of all */
    double unjudged;       /* bytes of size classes of which no sample could be judged */
    size_t judged, freed;  /* samples */
    size_t pieces;         /* pieces of memory that were read for judging */
    uint64_t bytes_read, ns;
    bool unresolved; /* the time was over before all symbols were looked up */
    struct contents *contents;
    uint64_t random;
};

struct peek_request {
    size_t samples; /* at most; 0: PEEK_SAMPLES */
    bool is_still;  /* nothing changes: a core file */
    const uint64_t *sizes;
    size_t size_count; /* only objects of these sizes; 0: all */
};

/*
 * Takes the sample and judges it. peek_free releases it, after a failure, too.
 * FAULT_OBJECTS_UNREADABLE: see extents_open. FAULT_INTERRUPTED, FAULT_TOO_LATE: the deadline of
 * the attachment.
 */
fault_code peek_run(struct peek *peek, struct attachment *attachment,
                    const struct peek_request *request, struct fault *fault);
void peek_free(struct peek *peek);
