/*
 * The reader on a profile made by hand (forged_profile.h), in a program that does not exist: its
 * memory comes from a function, which a test can use to change it between two reads.
 */
#pragma once

#include "forged_profile.h"
#include "jemalloc/reader/reader.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { RIG_BYTES = 256 << 10, RIG_SEGMENT = 16 << 10, RIG_HEADER = 4096 };

/* The program: its ELF header and code; a writable segment with its variables; a heap behind it. */
#define RIG_CODE UINT64_C(0x5500000000)
#define RIG_DATA UINT64_C(0x5500200000)
#define RIG_MAPS                                                                                   \
    "5500000000-5500100000 r-xp 00000000 08:01 77 /nowhere/program\n"                              \
    "5500200000-5500204000 rw-p 00100000 08:01 77 /nowhere/program\n"                              \
    "5500204000-5500240000 rw-p 00000000 00:00 0 \n"

/* The test's own header, for its machine. */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

struct rig {
    struct procfs proc;
    struct target target;
    struct memory memory;
    struct modules modules;
    struct instance instance;
    struct reader_source source;
    struct reader reader;
    struct forged forged;
    struct sink sink;
    struct reading reading;
    struct fault fault;
    size_t reads;       /* of its memory, so far */
    remote_addr border; /* no read can cross it, like the end of a mapping; 0: none */
    void (*before)(struct rig *rig, remote_addr addr, size_t len); /* a read; NULL: nothing */
    remote_addr hole; /* an address that cannot be read; 0: none */
    _Alignas(8) unsigned char header[RIG_HEADER];
    _Alignas(8) unsigned char bytes[RIG_BYTES];
};

static inline bool rig_copy(remote_addr addr, void *buf, size_t len, remote_addr start,
                            const void *bytes, size_t size)
{
    if (addr < start || addr - start > size || len > size - (addr - start))
        return false;
    memcpy(buf, (const unsigned char *)bytes + (addr - start), len);
    return true;
}

static inline bool rig_read_memory(void *ctx, remote_addr addr, void *buf, size_t len)
{
    struct rig *rig = ctx;

    rig->reads++;
    if (rig->before)
        rig->before(rig, addr, len);
    errno = EFAULT;
    if (addr < rig->border && rig->border - addr < len)
        return false;
    if (rig->hole >= addr && rig->hole - addr < len) {
        errno = EFAULT;
        return false;
    }
    if (rig_copy(addr, buf, len, RIG_CODE, rig->header, sizeof rig->header) ||
        rig_copy(addr, buf, len, RIG_DATA, rig->bytes, sizeof rig->bytes))
        return true;
    return false;
}

static inline void rig_write_header(struct rig *rig)
{
    Elf64_Ehdr *header = (Elf64_Ehdr *)rig->header;
    Elf64_Phdr *code = (Elf64_Phdr *)(header + 1), *data = code + 1;

    memcpy(header->e_ident, ELFMAG, SELFMAG);
    header->e_ident[EI_CLASS] = ELFCLASS64;
    header->e_ident[EI_DATA] = ELFDATA2LSB;
    header->e_machine = __ehdr_start.e_machine;
    header->e_phoff = sizeof *header;
    header->e_phentsize = sizeof *code;
    header->e_phnum = 2;
    *code = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = 1 << 20};
    *data = (Elf64_Phdr){.p_type = PT_LOAD,
                         .p_flags = PF_R | PF_W,
                         .p_vaddr = RIG_DATA - RIG_CODE,
                         .p_memsz = RIG_SEGMENT};
}

/* Starts a profile in a new program, whose jemalloc has the layout's version. */
static inline bool rig_begin(struct rig *rig, const struct forged_layout *layout)
{
    const struct memory_source from = {rig_read_memory, rig};

    memset(rig, 0, sizeof *rig);
    rig_write_header(rig);
    memory_open_source(&rig->memory, &from);
    sink_init(&rig->sink, 64 << 20);
    rig->proc.dirfd = -1;
    rig->target = (struct target){.proc = &rig->proc, .pidfd = -1};
    rig->source = (struct reader_source){.instance = &rig->instance,
                                         .modules = &rig->modules,
                                         .target = &rig->target,
                                         .memory = &rig->memory,
                                         .attempts = 1};
    forged_begin(&rig->forged, layout, rig->bytes, RIG_BYTES, RIG_DATA, RIG_CODE + 0x8000);
    rig->forged.used = RIG_SEGMENT;
    return modules_parse(&rig->modules, RIG_MAPS, strlen(RIG_MAPS)) && rig->modules.count == 1;
}

/* Adds objects of one size to the counts of a thread for a stack, as each would be counted. */
static inline remote_addr rig_count(struct rig *rig, size_t stack, size_t thread, uint64_t objects,
                                    uint64_t size, uint64_t objects_unbiased,
                                    uint64_t bytes_unbiased)
{
    const struct forged_count count = {.stack = stack,
                                       .thread = thread,
                                       .objects = objects,
                                       .bytes = objects * size,
                                       .objects_unbiased = objects * objects_unbiased,
                                       .bytes_unbiased = objects * bytes_unbiased,
                                       .state = FORGED_NOMINAL};
    return forged_count(&rig->forged, &count);
}

/* Completes the profile, and the instance by which it is found: one without symbols. */
static inline bool rig_end(struct rig *rig)
{
    struct instance *instance = &rig->instance;

    instance->module = rig->modules.list[0];
    instance->bias = RIG_CODE;
    instance->found_by = FOUND_TABLES;
    instance->mallctl = RIG_CODE + 0x9000;
    instance->globals.opt_prof = rig->forged.opt_prof;
    instance->globals.lg_sample = rig->forged.lg_sample;
    snprintf(instance->version, sizeof instance->version, "%s", rig->forged.layout->version);
    return forged_end(&rig->forged);
}

/*
 * Adds three threads of this process, and one of an earlier profile; two stacks of this profile,
 * and one of the other. prof.dump orders stacks as memcmp does: 0x5500000200 precedes 0x55000001ff.
 */
static inline bool rig_sample(struct rig *rig, const struct forged_layout *layout)
{
    static const uint64_t first[] = {RIG_CODE + 0x200, RIG_CODE + 0x1234},
                          second[] = {RIG_CODE + 0x1ff}, third[] = {RIG_CODE + 0x300};
    struct forged *forged = &rig->forged;

    if (!rig_begin(rig, layout))
        return false;
    forged_thread(forged, 0, 0, NULL, false);
    forged_thread(forged, 1, 0, "a worker", false);
    forged_thread(forged, 7, 0, "old", true);
    forged_thread(forged, 9, 0, NULL, false);
    forged_stack(forged, second, 1);
    forged_stack(forged, first, 2);
    forged_stack(forged, third, 1);
    rig_count(rig, 1, 0, 3, 1024, 4100, 524800);
    rig_count(rig, 1, 1, 1, 524288, 13, 829411);
    rig_count(rig, 0, 1, 2, 16, 262148, 524296);
    rig_count(rig, 2, 2, 5, 4096, 1028, 526339);
    return rig_end(rig);
}

static inline fault_code rig_open(struct rig *rig)
{
    return reader_open(&rig->reader, &rig->source, &rig->fault);
}

/* Reads the profile into the sink, followed by a NUL. */
static inline fault_code rig_read(struct rig *rig)
{
    rig->sink.len = 0;
    fault_code rc = reader_read(&rig->reader, &rig->sink, &rig->reading, &rig->fault);
    unsigned char *end = sink_reserve(&rig->sink, 1);

    if (end)
        *end = '\0';
    return rc;
}

static inline fault_code rig_open_and_read(struct rig *rig)
{
    fault_code rc = rig_open(rig);
    return rc == FAULT_NONE ? rig_read(rig) : rc;
}

static inline bool rig_text_is(const struct rig *rig, const char *expected)
{
    if (rig->sink.bytes && strcmp((const char *)rig->sink.bytes, expected) == 0)
        return true;
    fprintf(stderr, "expected:\n%sread:\n%s", expected,
            rig->sink.bytes ? (const char *)rig->sink.bytes : "nothing\n");
    return false;
}

static inline void rig_finish(struct rig *rig)
{
    reader_close(&rig->reader);
    sink_free(&rig->sink);
    modules_free(&rig->modules);
    memory_close(&rig->memory);
}
