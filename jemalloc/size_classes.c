#include "jemalloc/size_classes.h"
#include "jemalloc/ctl.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 48, LINEAR = 8, IN_GROUP = 4 };

/* Up to 128 a multiple of 16, then four classes for each power of two (sc.h since 5.2). */
uint64_t size_class_bytes(size_t number)
{
    if (number == 0)
        return 8;
    if (number <= LINEAR)
        return 16 * number;
    size_t group = (number - LINEAR - 1) / IN_GROUP, step = (number - LINEAR - 1) % IN_GROUP;
    return ((uint64_t)128 << group) + (step + 1) * ((uint64_t)32 << group);
}

/* 4096 is MALLCTL_ARENAS_ALL: the sums of all arenas, which the write of epoch has made. */
fault_code size_classes_read(struct injection *injection, const struct instance *instance,
                             struct size_class_counts *counts, struct fault *fault)
{
    struct ctl_op ops[1 + SIZE_CLASSES] = {{.name = "arenas.nbins", .type = CTL_UNSIGNED}};
    char names[SIZE_CLASSES][NAME_SIZE];
    fault_code rc;

    for (size_t i = 0; i < SIZE_CLASSES; i++) {
        snprintf(names[i], NAME_SIZE, "stats.arenas.4096.bins.%zu.curregs", i);
        ops[1 + i] = (struct ctl_op){.name = names[i], .type = CTL_SIZE};
    }
    memset(counts, 0, sizeof *counts);
    rc = ctl_run(injection, instance, ops, ARRAY_LEN(ops), NULL, fault);
    counts->known = rc == FAULT_NONE && ops[0].rc == 0 && ops[0].value == SIZE_CLASSES;
    for (size_t i = 0; i < SIZE_CLASSES && counts->known; i++) {
        counts->known = ops[1 + i].rc == 0;
        counts->objects[i] = ops[1 + i].value;
    }
    return rc;
}
