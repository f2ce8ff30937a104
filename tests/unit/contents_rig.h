/* A process with one module, which has the type information of a class, and a heap. */
#pragma once

#include "contents/contents.h"

#include <errno.h>
#include <string.h>

#define RIG_MODULE UINT64_C(0x400000)
#define RIG_HEAP   UINT64_C(0x7f1234560000)

enum { RIG_MODULE_SIZE = 32 << 10, RIG_HEAP_SIZE = 64 << 10 };

/* Offsets in the module. */
enum {
    FAMILY_VTABLE = 0x1010, /* address point of __class_type_info */
    FAMILY_TYPEINFO = 0x1100,
    FAMILY_NAME = 0x1200,
    CLASS_VTABLE = 0x2010, /* of Session */
    CLASS_TYPEINFO = 0x2100,
    CLASS_NAME = 0x2200,
    BASE_VTABLE = 0x2310, /* its second one, for a base at +16 */
};

struct contents_rig {
    unsigned char module[RIG_MODULE_SIZE], heap[RIG_HEAP_SIZE];
    struct memory_source source;
    struct memory memory;
    struct modules modules;
    struct target target;
    struct target_record record;
    struct contents *contents;
    size_t reads, bytes;
};

static inline bool contents_rig_read(void *ctx, remote_addr addr, void *buf, size_t len)
{
    struct contents_rig *rig = ctx;
    bool in_module = addr >= RIG_MODULE && addr - RIG_MODULE < RIG_MODULE_SIZE;
    remote_addr start = in_module ? RIG_MODULE : RIG_HEAP;
    size_t size = in_module ? RIG_MODULE_SIZE : RIG_HEAP_SIZE;

    rig->reads++;
    rig->bytes += len;
    errno = EFAULT;
    if (addr < start || addr - start > size || len > size - (addr - start))
        return false;
    memcpy(buf, (in_module ? rig->module : rig->heap) + (addr - start), len);
    return true;
}

static inline void rig_word(struct contents_rig *rig, size_t at, uint64_t word)
{
    memcpy(rig->module + at, &word, sizeof word);
}

static inline void rig_vtable(struct contents_rig *rig, size_t point, int64_t to_top,
                              size_t typeinfo)
{
    rig_word(rig, point - 16, (uint64_t)to_top);
    rig_word(rig, point - 8, RIG_MODULE + typeinfo);
    rig_word(rig, point, RIG_MODULE + 0x100);
}

static inline void rig_class(struct contents_rig *rig, const char *name)
{
    strcpy((char *)rig->module + FAMILY_NAME, "N10__cxxabiv117__class_type_infoE");
    strcpy((char *)rig->module + CLASS_NAME, name);
    rig_vtable(rig, FAMILY_VTABLE, 0, FAMILY_TYPEINFO);
    rig_word(rig, FAMILY_TYPEINFO, RIG_MODULE + FAMILY_VTABLE);
    rig_word(rig, FAMILY_TYPEINFO + 8, RIG_MODULE + FAMILY_NAME);
    rig_vtable(rig, CLASS_VTABLE, 0, CLASS_TYPEINFO);
    rig_vtable(rig, BASE_VTABLE, -16, CLASS_TYPEINFO);
    rig_word(rig, CLASS_TYPEINFO, RIG_MODULE + FAMILY_VTABLE);
    rig_word(rig, CLASS_TYPEINFO + 8, RIG_MODULE + CLASS_NAME);
}

/* contents_rig_end in either case. */
static inline bool contents_rig_begin(struct contents_rig *rig, const char *class_name)
{
    static const char maps[] = "00400000-00408000 r--p 00000000 08:01 5 /no/such/program\n"
                               "7f1234560000-7f1234570000 rw-p 00000000 00:00 0 \n"
                               "7f1234570000-7f1234580000 ---p 00000000 00:00 0 \n";

    memset(rig, 0, sizeof *rig);
    rig->source = (struct memory_source){contents_rig_read, rig};
    rig->record = (struct target_record){.root = -1, .program = -1};
    rig->target.record = &rig->record;
    memory_open_source(&rig->memory, &rig->source);
    rig_class(rig, class_name);
    if (!modules_parse(&rig->modules, maps, sizeof maps - 1))
        return false;
    rig->contents = contents_new(&rig->memory, &rig->modules, &rig->target);
    return rig->contents != NULL;
}

static inline void contents_rig_end(struct contents_rig *rig)
{
    contents_free(rig->contents);
    modules_free(&rig->modules);
    memory_close(&rig->memory);
}

static inline struct content rig_judge_two(struct contents_rig *rig, const void *bytes, size_t len,
                                           const void *second, size_t second_len)
{
    const struct content_bytes object = {
        RIG_HEAP, len < CONTENT_FIRST ? len : 1 << 20, bytes, len, second, second_len};
    struct content content = contents_judge(rig->contents, &object);

    contents_resolve(rig->contents);
    contents_settle(rig->contents, &content);
    return content;
}

static inline struct content rig_judge(struct contents_rig *rig, const void *bytes, size_t len)
{
    return rig_judge_two(rig, bytes, len, NULL, 0);
}
