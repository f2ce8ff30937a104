/* How many small objects of each size a process has, as jemalloc itself counts them. */
#pragma once

#include "inject/call.h"
#include "jemalloc/instance.h"

/* Small size classes of a build with pages of 4 KiB and a quantum of 16 bytes, as is usual. */
enum { SIZE_CLASSES = 36 };

struct size_class_counts {
    bool known;
    uint64_t objects[SIZE_CLASSES]; /* in use, or kept by a thread for its next allocation */
};

/* Returns the bytes of an object of the class: 8, 16, 32, 48, ... 14336. */
uint64_t size_class_bytes(size_t number);

/*
 * Reads the counts of the last write of epoch: for 5.0 and later, with config.stats,
 * which the caller has checked. Unknown, and no fault, if the build has other classes.
 */
fault_code size_classes_read(struct injection *injection, const struct instance *instance,
                             struct size_class_counts *counts, struct fault *fault);
