#include "run/reserve.h"
#include "host/task.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_RESERVE = 192 << 10, THREAD_STACK = 256 << 10 };

/* An attach may start a thread whose stack stays mapped: locked, all of 8 MiB would be resident. */
static void shrink_thread_stacks(void)
{
    pthread_attr_t attr;

    if (pthread_attr_init(&attr))
        return;
    if (pthread_attr_setstacksize(&attr, THREAD_STACK) == 0)
        (void)pthread_setattr_default_np(&attr);
    pthread_attr_destroy(&attr);
}

/*
 * Above M_MMAP_THRESHOLD malloc(3) maps and unmaps each block, and above
 * M_TRIM_THRESHOLD it returns the end of the heap to the kernel. 32 MiB is the
 * maximum that glibc accepts for the first.
 */
void reserve_heap(void)
{
    shrink_thread_stacks();
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_ARENA_MAX, 1); /* another arena would reserve 64 MiB of address space */
}

/* Not inlined, so that it touches the stack that later calls will use. */
__attribute__((noinline)) static void touch_stack(void)
{
    volatile char room[STACK_RESERVE];

    for (size_t i = 0; i < sizeof room; i += 1024)
        room[i] = 0;
}

/* Later mappings are not locked: they are files of the target, and may be large. */
int reserve_lock(void)
{
    touch_stack();
    return mlockall(MCL_CURRENT) == 0 ? 0 : errno;
}

void reserve_usage(uint64_t *rss, uint64_t *locked)
{
    struct proc_status own = {0};
    struct procfs proc;

    if (procfs_open(&proc, "/proc") == 0) {
        (void)process_status(&proc, PROC_SELF, &own);
        procfs_close(&proc);
    }
    *rss = own.rss_bytes;
    *locked = own.locked_bytes;
}
