/*
 * Memory that is there when the machine has none left: what a long wait will
 * need at its end is touched at its beginning, and kept from being taken.
 */
#pragma once

#include <stdint.h>

/* Before anything is allocated: what malloc(3) has got from the kernel it keeps. */
void reserve_heap(void);

/*
 * Locks what is mapped now, with some stack to spare (mlockall(2)). Returns 0
 * or an errno: ENOMEM, EPERM, more than RLIMIT_MEMLOCK without CAP_IPC_LOCK.
 */
int reserve_lock(void);

/* What of the tool is in memory, and of that locked, bytes. */
void reserve_usage(uint64_t *rss, uint64_t *locked);
