/* The test's own process as the target: its memory, its modules. */
#pragma once

#include "elf/image.h"
#include "elf/modules.h"

#include <string.h>

struct own {
    struct procfs proc;
    struct target target;
    struct gate gate;
    struct memory memory;
    struct modules modules;
};

static inline bool own_open(struct own *own)
{
    memset(own, 0, sizeof *own);
    if (procfs_open(&own->proc, "/proc") ||
        target_open(&own->target, &own->proc, getpid(), NULL) != FAULT_NONE)
        return false;
    memory_open(&own->memory, &own->target, &own->gate);
    return modules_load(&own->modules, &own->target, NULL) == FAULT_NONE;
}

/* What may become unreadable there is not read by force. */
static inline void own_guard(struct own *own, const void *start, size_t len)
{
    struct memory_range *range = malloc(sizeof *range);

    *range = (struct memory_range){(uintptr_t)start, (uintptr_t)start + len};
    memory_set_guarded(&own->memory, range, 1);
}

static inline void own_close(struct own *own)
{
    modules_free(&own->modules);
    memory_close(&own->memory);
    target_close(&own->target);
    procfs_close(&own->proc);
}
