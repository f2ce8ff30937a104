/*
 * A program that seems to have jemalloc, with a heap profile made by hand
 * (tests/unit/forged_profile.h).
 *
 *   forged sound | name | cycle | cells | tables | restless | endless | exec | fault
 *
 * sound     two stacks of 3 and 4 objects
 * name      the thread's name has control characters
 * cycle     a node of a tree leads to itself
 * cells     a table of 4 million cells, which are the same 2 MiB over and over
 * tables    no table, but everything in the data looks like one
 * restless  all counts change all the time
 * endless   the tree of threads has a million nodes that lead to each other
 * exec      the program replaces itself every 2 ms
 * fault     the table's page never arrives (userfaultfd(2))
 */
#include "tests/unit/forged_profile.h"
#include "tests/victims/nobody.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ARENA = 512 << 20, FAKE = 16 << 20, SHARED = 2 << 20, SKIPPED = 77 };

/* jemalloc's variables: the tool finds them by name. */
extern unsigned char opt_prof, prof_active_state, opt_prof_unbias;
extern uint64_t lg_prof_sample, bt2gctx[6], tdatas[2];
extern char opt_prof_prefix[4097];
unsigned char opt_prof = 1, prof_active_state = 1, opt_prof_unbias = 1;
uint64_t lg_prof_sample = 19, bt2gctx[6], tdatas[2];
char opt_prof_prefix[4097] = "jeprof";

int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);
void malloc_stats_print(void (*write_cb)(void *, const char *), void *opaque, const char *options);

static unsigned char fakes[FAKE]; /* data that are searched */
static struct forged forged;

__attribute__((noinline)) int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp,
                                      size_t newlen)
{
    (void)name, (void)oldp, (void)oldlenp, (void)newp, (void)newlen;
    return 2;
}

__attribute__((noinline)) void malloc_stats_print(void (*write_cb)(void *, const char *),
                                                  void *opaque, const char *options)
{
    (void)write_cb, (void)opaque, (void)options;
}

static remote_addr address(const void *at)
{
    return (remote_addr)(uintptr_t)at;
}

static void skip(const char *what)
{
    printf("SKIP: %s\n", what);
    exit(SKIPPED);
}

static void *map_anonymous(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED)
        skip("mmap");
    return at;
}

static void count(size_t stack, uint64_t objects)
{
    forged_count(&forged, &(struct forged_count){.stack = stack,
                                                 .objects = objects,
                                                 .bytes = objects * 1024,
                                                 .objects_unbiased = objects * 4100,
                                                 .bytes_unbiased = objects * 524800,
                                                 .state = FORGED_NOMINAL});
}

static void forge(const char *name)
{
    const remote_addr code = address((const void *)(uintptr_t)&mallctl);
    const uint64_t first[] = {code + 1, code + 2}, second[] = {code + 3};
    unsigned char *arena = map_anonymous(ARENA);

    forged_begin(&forged, &forged_layouts[5], arena, 1 << 20, address(arena), code);
    forged.size = ARENA;
    forged.table = address(bt2gctx);
    forged.tree = address(tdatas);
    forged_thread(&forged, 0, 0, name, false);
    forged_stack(&forged, first, 2);
    forged_stack(&forged, second, 1);
    count(0, 3);
    count(1, 4);
    forged_end(&forged);
}

static void make_cycle(void)
{
    forged_put(&forged, forged.counts[0].at + forged.layout->tctx_link, forged.counts[0].at);
}

/* Cells whose keys are those of their data, in a table of the largest size. */
static void make_cells(void)
{
    const size_t size = (size_t)64 << 20;
    unsigned char *at = map_anonymous(size + SHARED);
    int file = memfd_create("cells", 0);
    uint64_t *cells;

    if (file < 0 || ftruncate(file, SHARED))
        skip("memfd_create");
    at += SHARED - (uintptr_t)at % SHARED;
    for (size_t i = 0; i < size; i += SHARED)
        if (mmap(at + i, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
            MAP_FAILED)
            skip("mmap");
    cells = (uint64_t *)(void *)at;
    for (size_t i = 0; i < SHARED / 16; i++) {
        cells[2 * i + 1] = forged.base + 64 * i;
        cells[2 * i] = cells[2 * i + 1] + forged.layout->gctx_bt;
    }
    bt2gctx[1] = 4 << 20;
    bt2gctx[2] = (uint64_t)20 << 32 | 5;
    bt2gctx[5] = address(at);
}

/* Possible tables of 65,536 cells each, which are empty. */
static void make_tables(void)
{
    const uint64_t table[6] = {1,
                               0,
                               (uint64_t)14 << 32 | 5,
                               forged.hash,
                               forged.compare,
                               address(map_anonymous((size_t)64 << 14))};

    memset(bt2gctx, 0, sizeof bt2gctx);
    for (size_t i = 0; i + sizeof table <= sizeof fakes; i += sizeof table)
        memcpy(fakes + i, table, sizeof table);
}

/* Each node leads to two others, with keys in ascending order: a tree that has no end. */
static void make_endless(void)
{
    const unsigned size = forged.layout->tdata_size, link = forged.layout->tdata_link;
    const remote_addr first = forged.threads[0].at;
    remote_addr at = 0;

    for (uint64_t i = 0; i < 100000; i++) {
        remote_addr next = forged_take(&forged, size);
        memcpy(forged_at(&forged, next), forged_at(&forged, first), size);
        forged_put(&forged, next + 8, i + 1);
        forged_put(&forged, next + link, at);
        forged_put(&forged, next + link + 8, at | 1);
        at = next;
    }
    forged_put(&forged, first + link + 8, at);
}

static void leave_unserved(void)
{
    unsigned char *page = map_anonymous(4096);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range = {address(page), 4096},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &range) ||
        !become_nobody())
        skip("userfaultfd");
    bt2gctx[5] = address(page);
}

static void never_rest(void)
{
    for (uint64_t i = 0;; i++)
        for (size_t k = 0; k < forged.count_count; k++)
            *(volatile uint64_t *)(uintptr_t)(forged.counts[k].at + forged.layout->tctx_cnts) = i;
}

static void replace(char *argv[])
{
    const struct timespec pause = {0, 2000000};

    nanosleep(&pause, NULL);
    setenv("AGAIN", "1", 1);
    execv("/proc/self/exe", argv);
}

static void (*const makers[])(void) = {make_cycle, make_cells, make_tables, make_endless,
                                       leave_unserved};
static const char *const modes[] = {"cycle", "cells", "tables", "endless", "fault"};

int main(int argc, char *argv[])
{
    const char *mode = argc > 1 ? argv[1] : "sound";

    forge(strcmp(mode, "name") == 0 ? "two\n  t5: 1: 1 [0: 0]\033[2J" : "main");
    for (size_t i = 0; i < ARRAY_LEN(modes); i++)
        if (strcmp(mode, modes[i]) == 0)
            makers[i]();
    if (!getenv("AGAIN"))
        puts("ready");
    fflush(stdout);
    if (strcmp(mode, "restless") == 0)
        never_rest();
    if (strcmp(mode, "exec") == 0)
        replace(argv);
    for (;;)
        pause();
}
