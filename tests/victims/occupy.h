/* A thread that keeps the address space of the victim locked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Starts a thread that populates a large mapping again and again (MADV_POPULATE_READ), each time
 * for about lock_ns, and waits for its first time. Nobody can map or unmap memory meanwhile.
 * False with ENOSYS: the kernel has no such call (before Linux 5.14); with another errno otherwise.
 */
bool occupy_start(uint64_t lock_ns);
