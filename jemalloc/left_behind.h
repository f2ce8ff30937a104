/*
 * Free space in slabs of arenas that no thread is assigned to: their threads have ended, or the
 * program uses them only by their number (MALLOCX_ARENA).
 */
#pragma once

#include "jemalloc/bins.h"

struct left_behind {
    uint64_t size;        /* of the size class, bytes; 0: unknown */
    uint64_t bytes;       /* free in its slabs */
    unsigned arenas;      /* that have some of it */
    unsigned initialized; /* all arenas, with threads or without */
};

/*
 * Reads it for one size class, bins->arenas[0].bins[number], as of the last write of epoch. The
 * number of calls grows with that of the arenas, one for each and three for each without threads:
 * reading all classes of all arenas would stop the thread for 70 ms where 256 arenas are in use.
 */
fault_code left_behind_read(struct injection *injection, const struct instance *instance,
                            const struct bins *bins, size_t number, struct left_behind *left,
                            struct fault *fault);
/* Takes it from each arena, which has been read or parsed. */
void left_behind_take(const struct bins *bins, size_t number, struct left_behind *left);
