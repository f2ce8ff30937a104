/*
 * Keeps memory available when the machine runs out of it: the memory that a
 * long wait needs at its end is touched at its beginning, and locked.
 */
#pragma once

#include <stdint.h>

/* Call before the first allocation: makes malloc(3) keep the memory it has. */
void reserve_heap(void);

/*
 * Locks all present mappings and some spare stack (mlockall(2)). Returns 0 or
 * errno: ENOMEM or EPERM above RLIMIT_MEMLOCK without CAP_IPC_LOCK.
 */
int reserve_lock(void);

/* Resident and locked bytes of the tool. */
void reserve_usage(uint64_t *rss, uint64_t *locked);
