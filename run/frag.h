/*
 * What of the memory of a process is free but not returned, and which stacks keep it. From
 * jemalloc's own records each sampled object has its size class; a profile's text knows only the
 * mean size of a stack's objects.
 */
#pragma once

#include "profile/waste.h"
#include "run/access.h"
#include "run/account.h"

struct frag {
    struct account account;
    unsigned arenas;             /* that have free space in slabs; 0: unknown */
    uint64_t largest;            /* bytes in the one that has most */
    struct waste_class *classes; /* of all arenas */
    size_t class_count;
    struct capture capture; /* taken: there is a profile */
    bool by_object;         /* each stack of it has the objects of one size class */
    fault_code why;         /* without one: FAULT_PROF_DISABLED, FAULT_PROF_ABSENT, or unreadable */
};

/* frag_free releases what frag_take has made, after a failure, too. */
void frag_init(struct frag *frag);
void frag_free(struct frag *frag);

/*
 * After attachment_find with WAY_MEMORY. Counts from jemalloc's records, and takes the profile from
 * them. A process without profiling is no fault. FAULT_OBJECTS_UNREADABLE: memory does not show
 * the objects; faults of live_take.
 */
fault_code frag_take(struct frag *frag, struct attachment *attachment, struct fault *fault);
