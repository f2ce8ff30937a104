/*
 * What grows, as `leak` answers it: parts of the process's memory, the largest growth first, each
 * with the evidence for its amount and with the stacks that may have caused it. Data, no words.
 */
#pragma once

#include "profile/samples.h"
#include "run/leak/leak.h"

enum {
    PART_STACKS = 3, /* named of one part */
    PARTS_MAX = 8,
};

enum part_kind {
    PART_OBJECTS, /* of jemalloc: of one size, or size 0: of several */
    PART_MEMORY,  /* pages of one kind: part.memory */
};

enum part_state {
    PART_GROWS,
    PART_ONE_OF,   /* one of its stacks grows, or one without a sample */
    PART_ONCE,     /* it grew in one step */
    PART_UNSTEADY, /* it is larger at the end */
};

struct part_stack {
    uint32_t sample;
    double low, high; /* growth, bytes */
};

struct part {
    enum part_kind kind;
    enum part_state state;
    uint64_t size;                     /* bytes of an object */
    enum grow_kind memory;             /* of PART_MEMORY */
    double bytes, error;               /* growth, exact but for the error */
    double since_s;                    /* PART_UNSTEADY: for so long it has not grown */
    const struct verdict_class *class; /* NULL: several */
    bool
        handed_on; /* PART_MEMORY: of an allocator, which may have given it to other stacks since */
    bool unseen;   /* PART_ONE_OF: or a stack that has no sample */
    struct part_stack stacks[PART_STACKS]; /* of PART_OBJECTS; the largest first */
    size_t stack_count, more;              /* named, and known besides these */
};

struct parts {
    struct part list[PARTS_MAX];
    size_t count;
};

/*
 * Makes the parts that consist of jemalloc's objects, from a verdict over the looks; samples may
 * be NULL: then no stack is named.
 */
void parts_of_objects(struct parts *parts, const struct leak *leak, const struct verdict *verdict,
                      const struct samples *samples);
/*
 * Growth of a kind of memory that is no growth, bytes: it may come and go. counted: jemalloc's
 * objects are, by looks.
 */
double parts_notable(const struct leak *leak, bool counted, enum grow_kind kind);
/* True if jemalloc's pages grow by more than its objects: parts_of_memory will have that part. */
bool parts_have_free_memory(const struct leak *leak);
/* Adds those outside jemalloc's objects, which page faults and the kernel's counts show. */
void parts_of_memory(struct parts *parts, const struct leak *leak, const struct verdict *verdict);
