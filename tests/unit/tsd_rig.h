/*
 * The data of threads as jemalloc has them, made by hand: a program with thread-local storage,
 * whose block has other words around them; profiling data, arenas and leaves in a heap. Offsets
 * are those that gcc gives the structures of jemalloc's headers (tsd.h, prof.h); the program's own
 * table of layouts is not used.
 */
#pragma once

#include "jemalloc/tsd/tsd.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

enum { TSD_ABSENT = -1, RIG_THREADS = 4, RIG_BLOCK = 4096, RIG_TREE_PAIRS = 24 };

struct tsd_form {
    const char *version;
    int state_size, nominal, unused;           /* the state, and two of its values */
    int state, allocated, deallocated, limits; /* limits: behind both counters */
    int events, freed_events, wait, tdata, internal, arena, tree, tcache;
    int table, active, expired, tdata_wait; /* of its profiling data */
    int seed, cached;                       /* a random number; that it has a cache */
};

static const struct tsd_form tsd_forms[] = {
    {"4.0.4-0-g0", 4, 1, 0, 0, 16, 24, 0, -1, -1, -1, 32, -1, 40, -1, 8, 64, 132, 33, 120, -1, -1},
    {"4.5.0-0-g0", 4, 1, 0, 0, 16, 24, 0, -1, -1, -1, 32, 40, 48, -1, 8, 64, 132, 33, 120, -1, -1},
    {"5.0.1-0-g0", 1, 0, 5, 0, 8, 16, 0, -1, -1, -1, 24, 416, 424, 32, -1, 64, 132, 33, 120, -1, 1},
    {"5.1.0-0-g0", 1, 0, 5, 0, 16, 24, 0, -1, -1, -1, 32, 424, 432, 40, -1, 64, 132, 33, 120, 8, 1},
    {"5.2.1-0-g0", 1, 0, 6, 0, 16, 24, 0, -1, -1, 32, 40, 432, 440, 48, -1, 64, 124, 33, -1, 8, 1},
    {"5.2.1-200-g0",
     1,
     0,
     6,
     0,
     8,
     24,
     1,
     424,
     440,
     472,
     504,
     520,
     528,
     40,
     -1,
     64,
     116,
     33,
     -1,
     512,
     1},
    {"5.3.0-0-g0", 1,   0,   6,   816, 824, 840, 1,  8,  24,  56,
     104,          136, 144, 432, -1,  64,  116, 33, -1, 112, 0},
    {"5.3.1-0-g0", 1,   0,   6,   928, 936, 952, 1,   8,  24,  40,
     168,          200, 208, 544, -1,  48,  116, 118, -1, 176, 0},
    {"5.3.1-50-g0", 1,   0,   5,   888, 896, 912, 1,   8,  24,  40,
     168,           200, 208, 504, -1,  48,  116, 118, -1, 176, 0},
};

#define TSD_CODE  UINT64_C(0x5500000000)
#define TSD_HEAP  UINT64_C(0x5600000000)
#define TSD_STACK UINT64_C(0x5700000000) /* of thread n: n MiB behind it */
#define TSD_MAPS                                                                                   \
    "5500000000-5500100000 r-xp 00000000 08:01 77 /nowhere/program\n"                              \
    "5600000000-5600010000 rw-p 00000000 00:00 0 \n"                                               \
    "5700000000-5700400000 rw-p 00000000 00:00 0 \n"

/* The test's own header, for its machine. */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

struct tsd_rig {
    const struct tsd_form *form;
    struct memory memory;
    struct modules modules;
    struct instance instance;
    struct thread_pointers pointers;
    struct thread_pointer list[RIG_THREADS];
    struct tsd_search search;
    size_t at;             /* of a tsd in its block */
    size_t reads, changes; /* before which the words of thread 0 are damaged */
    bool is_alone;         /* no other words are in the block */
    _Alignas(8) unsigned char header[4096];
    _Alignas(8) unsigned char heap[64 << 10];
    _Alignas(8) unsigned char blocks[RIG_THREADS][RIG_BLOCK + 64]; /* and a control block */
};

static inline remote_addr tsd_rig_pointer(size_t thread)
{
    return TSD_STACK + thread * (1 << 20) + 0x8000;
}

static inline bool tsd_rig_copy(remote_addr addr, void *buf, size_t len, remote_addr start,
                                const void *bytes, size_t size)
{
    if (addr < start || addr - start > size || len > size - (addr - start))
        return false;
    memcpy(buf, (const unsigned char *)bytes + (addr - start), len);
    return true;
}

static inline bool tsd_rig_read(void *ctx, remote_addr addr, void *buf, size_t len)
{
    struct tsd_rig *rig = ctx;

    errno = EFAULT;
    rig->reads++;
    if (tsd_rig_copy(addr, buf, len, TSD_CODE, rig->header, sizeof rig->header) ||
        tsd_rig_copy(addr, buf, len, TSD_HEAP, rig->heap, sizeof rig->heap))
        return true;
    for (size_t i = 0; i < RIG_THREADS; i++) {
        if (!tsd_rig_copy(addr, buf, len, tsd_rig_pointer(i) - RIG_BLOCK, rig->blocks[i],
                          sizeof rig->blocks[i]))
            continue;
        if (i == 0 && rig->changes && len >= 64) {
            memset(buf, 0xa5, len);
            rig->changes--;
        }
        return true;
    }
    return false;
}

static inline unsigned char *tsd_rig_at(struct tsd_rig *rig, size_t thread, int offset)
{
    return rig->blocks[thread] + rig->at + offset;
}

static inline void tsd_rig_put(struct tsd_rig *rig, size_t thread, int offset, uint64_t value)
{
    if (offset >= 0)
        memcpy(tsd_rig_at(rig, thread, offset), &value, sizeof value);
}

static inline void tsd_rig_put_heap(struct tsd_rig *rig, remote_addr at, uint64_t value)
{
    memcpy(rig->heap + (at - TSD_HEAP), &value, sizeof value);
}

static inline void tsd_rig_put_state(struct tsd_rig *rig, size_t thread, int value)
{
    const uint32_t wide = (uint32_t)value;

    if (rig->form->state_size == 4)
        memcpy(tsd_rig_at(rig, thread, rig->form->state), &wide, sizeof wide);
    else
        *tsd_rig_at(rig, thread, rig->form->state) = (unsigned char)value;
}

static inline remote_addr tsd_rig_tdata(size_t thread)
{
    return TSD_HEAP + 0x1000 + thread * 0x400;
}

static inline remote_addr tsd_rig_arena(size_t thread)
{
    return TSD_HEAP + 0x4000 + thread * 0x1000;
}

static inline void tsd_rig_put_counter(struct tsd_rig *rig, size_t thread, int counter, int events,
                                       uint64_t value)
{
    tsd_rig_put(rig, thread, counter, value);
    if (events < 0)
        return;
    tsd_rig_put(rig, thread, counter + 8, value + 100);
    tsd_rig_put(rig, thread, events, value - value % 50);
    tsd_rig_put(rig, thread, events + 8, value + 100);
}

/* A thread that has allocated. wait: where the build has it. */
static inline void tsd_rig_used(struct tsd_rig *rig, size_t thread, uint64_t allocated,
                                uint64_t deallocated, uint64_t wait)
{
    const struct tsd_form *form = rig->form;

    tsd_rig_put_state(rig, thread, form->nominal);
    tsd_rig_put_counter(rig, thread, form->allocated, form->events, allocated);
    tsd_rig_put_counter(rig, thread, form->deallocated, form->freed_events, deallocated);
    tsd_rig_put(rig, thread, form->wait, wait);
    tsd_rig_put(rig, thread, form->arena, tsd_rig_arena(thread));
    tsd_rig_put(rig, thread, form->internal, tsd_rig_arena(0));
    tsd_rig_put_heap(rig, tsd_rig_arena(thread), (UINT64_C(1) << 32) + thread);
    tsd_rig_put(rig, thread, form->tcache, TSD_HEAP + 0x9000);
    tsd_rig_put(rig, thread, form->seed, UINT64_C(0x9e3779b97f4a7c15) * (thread + 3));
    if (form->cached >= 0)
        *tsd_rig_at(rig, thread, form->cached) = 1;
    for (int i = 0; form->tree >= 0 && i < RIG_TREE_PAIRS; i++) {
        tsd_rig_put(rig, thread, form->tree + 16 * i, i ? 1 : UINT64_C(0x7f0000000000));
        tsd_rig_put(rig, thread, form->tree + 16 * i + 8, i ? 0 : TSD_HEAP + 0xa000);
    }
}

/* Adds its profiling data. */
static inline void tsd_rig_sampled(struct tsd_rig *rig, size_t thread, bool active, uint64_t wait)
{
    const struct tsd_form *form = rig->form;
    const remote_addr at = tsd_rig_tdata(thread), table = at + (remote_addr)form->table;

    tsd_rig_put(rig, thread, form->tdata, at);
    tsd_rig_put_heap(rig, table + 24, TSD_CODE + 0x8000);
    tsd_rig_put_heap(rig, table + 32, TSD_CODE + 0x8010);
    tsd_rig_put_heap(rig, table + 40, TSD_HEAP + 0xb000);
    rig->heap[at - TSD_HEAP + (size_t)form->active] = active;
    if (form->tdata_wait >= 0)
        tsd_rig_put_heap(rig, at + (remote_addr)form->tdata_wait, wait);
}

static inline void tsd_rig_header(struct tsd_rig *rig)
{
    Elf64_Ehdr *header = (Elf64_Ehdr *)rig->header;
    Elf64_Phdr *code = (Elf64_Phdr *)(header + 1), *storage = code + 1;

    memcpy(header->e_ident, ELFMAG, SELFMAG);
    header->e_ident[EI_CLASS] = ELFCLASS64;
    header->e_ident[EI_DATA] = ELFDATA2LSB;
    header->e_type = ET_EXEC;
    header->e_machine = __ehdr_start.e_machine;
    header->e_phoff = sizeof *header;
    header->e_phentsize = sizeof *code;
    header->e_phnum = 2;
    *code = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = 1 << 20};
    *storage = (Elf64_Phdr){.p_type = PT_TLS, .p_memsz = RIG_BLOCK, .p_align = 64};
}

/* Starts with threads that have not called jemalloc, at that offset in their blocks. */
static inline bool tsd_rig_begin(struct tsd_rig *rig, const struct tsd_form *form, size_t at)
{
    const struct memory_source from = {tsd_rig_read, rig};

    memset(rig, 0, sizeof *rig);
    rig->form = form;
    rig->at = at;
    tsd_rig_header(rig);
    memory_open_source(&rig->memory, &from);
    for (size_t i = 0; i < RIG_THREADS; i++) {
        for (size_t k = 0; k < RIG_BLOCK; k += 8) /* what other code has there */
            memcpy(rig->blocks[i] + k, &(uint64_t){k % 64 ? UINT64_MAX - k : i}, 8);
        memset(rig->blocks[i] + at, 0, 1400);
        tsd_rig_put_state(rig, i, form->unused);
        rig->list[i] = (struct thread_pointer){(pid_t)(100 + i), tsd_rig_pointer(i)};
    }
    rig->pointers = (struct thread_pointers){rig->list, RIG_THREADS};
    if (!modules_parse(&rig->modules, TSD_MAPS, strlen(TSD_MAPS)) || rig->modules.count != 1)
        return false;
    rig->instance.module = rig->modules.list[0];
    rig->search = (struct tsd_search){.instance = &rig->instance,
                                      .modules = &rig->modules,
                                      .memory = &rig->memory,
                                      .pointers = &rig->pointers,
                                      .version = version_parse(form->version),
                                      .samples = true};
    return true;
}

static inline void tsd_rig_end(struct tsd_rig *rig)
{
    modules_free(&rig->modules);
    memory_close(&rig->memory);
}

/* Reads one thread at the place. */
static inline bool tsd_rig_take(struct tsd_rig *rig, const struct tsd_place *place, size_t thread,
                                struct tsd_data *data)
{
    remote_addr at = tsd_place_of(place, tsd_rig_pointer(thread), &rig->memory);
    unsigned char bytes[TSD_WINDOW];

    return at && memory_read(&rig->memory, at, bytes, place->size) &&
           tsd_data_take(data, place, &rig->search, at, bytes);
}
