/* An input as a program's memory: pages at a fixed address, between unreadable ones. */
#pragma once

#include "attach/memory.h"
#include "fuzz.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 32 };

static const uintptr_t base = 0x200000000000;

static struct procfs proc;
static struct target target;
static struct memory memory;

/* Maps the pages at base, and opens this process as the target whose memory they are. */
static void own_pages_prepare(void)
{
    static struct gate gate;
    struct memory_range *pages = malloc(sizeof *pages);
    void *area = mmap((void *)(base - PAGE), (PAGES + 2) * PAGE, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    expect(area == (void *)(base - PAGE));
    expect(mprotect((void *)base, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
    expect(procfs_open(&proc, "/proc") == 0);
    target = (struct target){.proc = &proc, .pid = getpid(), .pidfd = -1};
    memory_open(&memory, &target, &gate);
    *pages = (struct memory_range){base, base + PAGES * PAGE}; /* while one input is read */
    memory_set_unchanging(&memory, pages, 1);
}
