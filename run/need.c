#include "run/need.h"
#include "base/units.h"
#include "host/headroom.h"
#include "host/task.h"
#include "jemalloc/conf.h"
#include "jemalloc/reader/birth.h"
#include "jemalloc/reader/gauges.h"
#include "run/faults.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/*
 * Pages of 4 KiB, measured on Linux 6.18 as the growth of memory.max_usage_in_bytes of a
 * cgroup v1 whose limit was 62 pages above its use (so that the kernel charges page by
 * page), and of the private pages in smaps_rollup; jemalloc 5.2.1, 5.3.0 and 5.3.1, 8, 64
 * and 256 arenas, 1, 8 and 64 threads. tests/containers/limits.py looks for a kill.
 */
enum {
    /*
     * Frames on the thread's stack, code, arguments and stack of the scratch area, a page of
     * page tables: 4 to 6, whatever is called.
     */
    NEED_CALL = 8,
    /* The first call of mallctl (ctl.c, ctl_init): 34 to 39 with 8 arenas, 90 to 97 with 64,
       286 to 297 with 256, page tables included. With a dump as the first call 5 or 6 more. */
    NEED_FIRST = 48,
    NEED_FIRST_ARENA = 1,
    /* For each arena that a thread has used, when its counts are collected for the first time
       (ctl_refresh): 7.3 with 5.2.1, 8.2 with 5.3.0, 9.1 with 5.3.1. */
    NEED_ARENA = 10,
    /* PROF_DUMP_BUFSIZE, touched as far as the profile fills it. */
    NEED_DUMP_BUFFER = 16,
    /* Page cache of a file that the target writes, if the profile cannot be read before: the
       profile, and the mappings behind it. */
    NEED_FILE = 256,
    NEED_FILE_MAPS = 16,
    /* malloc_stats_print, prof_recent: a buffer of 64 KiB since 5.3.0, and the texts that are
       gathered in the scratch area (SCRATCH_GATHER): 36 with a report of 60 KiB. */
    NEED_REPORT = 16 + SCRATCH_GATHER / MEMORY_PAGE,
    /* Between the stop that switches sampling on and the one that switches it off, the target
       keeps a record for each new stack and thread: then the second must not be refused. */
    NEED_SAMPLES = 32,
    /* Pages that any call may touch and that can be in swap: stacks, jemalloc's own data. */
    NEED_FROM_SWAP = 64,
};

/* ---- arenas ---- */

/* Returns the largest number behind "narenas:" in jemalloc's options; 0: none. */
static uint64_t narenas_of_options(struct attachment *attachment)
{
    static const char key[] = "narenas:";
    struct conf conf = {0};
    const struct conf_source *const sources[] = {&conf.symbol, &conf.link, &conf.variable};
    uint64_t most = 0, value;

    conf_variable_name(attachment->instance.prefix, conf.variable.name, sizeof conf.variable.name);
    conf_read(&conf, &attachment->instance, &attachment->modules, &attachment->target,
              &attachment->memory);
    for (size_t i = 0; i < ARRAY_LEN(sources); i++)
        for (const char *at = sources[i]->text; (at = strstr(at, key)); at++) {
            struct cursor number = cursor_of(at + strlen(key), strlen(at + strlen(key)));
            if (cursor_take_decimal(&number, &value) && value > most)
                most = value;
        }
    return most < ARENAS_MAX ? most : ARENAS_MAX;
}

/* Returns how many arenas there can be: four for each CPU, unless the options say more. */
static uint64_t arenas_at_most(struct attachment *attachment)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    uint64_t by_default = cpus > 0 ? (uint64_t)cpus * 4 + 1 : ARENAS_MAX;
    uint64_t by_options = narenas_of_options(attachment);

    return by_default > by_options ? by_default : by_options;
}

/* Returns how many arenas an array points to; 0: it is not the array of arenas. */
static uint64_t arenas_in(struct attachment *attachment, remote_addr array, uint64_t arenas)
{
    remote_addr list[ARENAS_MAX];
    uint64_t used = 0;

    if (!memory_read(&attachment->memory, array, list, arenas * sizeof *list) || !list[0])
        return 0;
    for (size_t i = 0; i < arenas; i++) {
        const struct vma *vma = modules_vma_at(&attachment->modules, list[i]);
        if (list[i] && (list[i] % 16 || !vma || !(vma->prot & MAP_WRITE)))
            return 0;
        used += list[i] != 0;
    }
    return used;
}

/* Returns how many arenas threads have used, at most: since 5.0 one of these is the array. */
static uint64_t arenas_used(struct attachment *attachment, const struct getters *getters,
                            uint64_t arenas)
{
    uint64_t most = 0, used;

    for (size_t i = 0; getters->through && i < getters->arenas.count; i++) {
        used = arenas_in(attachment, getters->arenas.list[i], arenas);
        most = used > most ? used : most;
    }
    return most ? most : arenas;
}

/* Returns the pages of jemalloc's own counts that a call of mallctl may touch for the first time.
 */
static uint64_t pages_of_counts(struct attachment *attachment)
{
    const struct reader_source source = attachment_source(attachment, &attachment->deadline);
    struct gauges_memory places;
    struct gauges_reading reading;
    uint64_t arenas = arenas_at_most(attachment), used, pages = 0;

    gauges_locate(&places, &source);
    gauges_read(&places, &reading);
    used = arenas_used(attachment, &places.getters, arenas);
    if (!gauges_known(&reading))
        pages = NEED_FIRST + NEED_FIRST_ARENA * arenas;
    else if (!(attachment->work & WORK_REFRESH))
        return 0;
    /* The arena of the first thread has been counted if any has. */
    return pages + NEED_ARENA * (used - 1);
}

/* ---- dumps ---- */

/* Returns the bytes of the profile as text; UINT64_MAX: unknown. */
static uint64_t profile_len(struct attachment *attachment)
{
    struct reader_source source = attachment_source(attachment, &attachment->deadline);
    struct reading reading;
    struct reader reader;
    struct fault ignored;
    struct sink sink;
    uint64_t len = UINT64_MAX;

    source.attempts = 1;
    sink_init(&sink, sink_affordable(&attachment->proc, SIZE_MAX));
    if (reader_open(&reader, &source, &ignored) == FAULT_NONE) {
        if (reader_read(&reader, &sink, &reading, &ignored) == FAULT_NONE)
            len = sink.len;
        reader_close(&reader);
    }
    sink_free(&sink);
    return len;
}

static uint64_t pages_of_dump(struct attachment *attachment)
{
    uint64_t len = profile_len(attachment), text = len / MEMORY_PAGE + 1;
    uint64_t pages = text < NEED_DUMP_BUFFER ? text : NEED_DUMP_BUFFER;

    if (attachment->work & WORK_FILE)
        pages += len == UINT64_MAX ? NEED_FILE : text + NEED_FILE_MAPS;
    return pages;
}

/* ---- all together ---- */

static uint64_t swapped_bytes(const struct attachment *attachment)
{
    struct proc_status status;

    return process_status(&attachment->proc, target_via(&attachment->target), &status) == 0
               ? status.swap_bytes
               : 0;
}

/* A dump reads the data of each stack, and a report that of each arena. */
static uint64_t bytes_from_swap(const struct attachment *attachment)
{
    uint64_t most = (uint64_t)NEED_FROM_SWAP * MEMORY_PAGE, swapped = swapped_bytes(attachment);

    if (attachment->work & (WORK_DUMP | WORK_REPORT) || swapped < most)
        return swapped;
    return most;
}

/* Without a look at jemalloc's data: what no process exceeds. */
static uint64_t pages_at_most(void)
{
    return NEED_CALL + NEED_FIRST + NEED_DUMP_BUFFER + NEED_FILE + NEED_REPORT + NEED_SAMPLES +
           (NEED_FIRST_ARENA + NEED_ARENA) * ARENAS_MAX;
}

/* Reads the profile only where its length matters: a file, or too few pages are left. */
static uint64_t pages_now(struct attachment *attachment, uint64_t left)
{
    uint64_t pages = NEED_CALL + pages_of_counts(attachment);

    if (attachment->work & WORK_REPORT)
        pages += NEED_REPORT;
    if (attachment->work & WORK_SAMPLE)
        pages += NEED_SAMPLES;
    if (!(attachment->work & WORK_DUMP))
        return pages;
    if (!(attachment->work & WORK_FILE) && left >= pages + NEED_DUMP_BUFFER)
        return pages + NEED_DUMP_BUFFER;
    return pages + pages_of_dump(attachment);
}

static fault_code refuse_need(const struct headroom *headroom, uint64_t wanted, uint64_t swapped,
                              struct fault *fault)
{
    char left[UNITS_TEXT], need[UNITS_TEXT], swap[UNITS_TEXT], of_swap[64] = "";

    if (swapped)
        snprintf(of_swap, sizeof of_swap, ", %s of it for pages that are in swap",
                 units_bytes((double)swapped, swap));
    return fault_set(fault, FAULT_NO_HEADROOM, ENOMEM, "hold",
                     "%s has %s left, and a call may need %s%s", headroom->group,
                     units_bytes((double)headroom->left, left),
                     units_bytes((double)headroom_for(headroom, wanted), need), of_swap);
}

fault_code need_check(struct attachment *attachment, struct fault *fault)
{
    struct headroom headroom;
    uint64_t swapped, wanted, left;

    if (!headroom_read(&attachment->proc, target_via(&attachment->target), &headroom))
        return FAULT_NONE;
    swapped = bytes_from_swap(attachment);
    if (headroom.bytes >= pages_at_most() * MEMORY_PAGE + swapped)
        return FAULT_NONE;
    left = headroom.bytes > swapped ? (headroom.bytes - swapped) / MEMORY_PAGE : 0;
    wanted = pages_now(attachment, left) * MEMORY_PAGE + swapped;
    return headroom.bytes >= wanted ? FAULT_NONE : refuse_need(&headroom, wanted, swapped, fault);
}

fault_code need_explain_swapped(const struct attachment *attachment, struct fault *fault)
{
    char left[UNITS_TEXT], swap[UNITS_TEXT];
    struct headroom headroom;

    if (!headroom_read(&attachment->proc, target_via(&attachment->target), &headroom))
        return fault->code; /* the limit is gone */
    return fault_set(
        fault, FAULT_NO_HEADROOM, ENOMEM, "read memory",
        "%s has %s left, and %s of the process is in swap, which a read would bring back",
        headroom.group, units_bytes((double)headroom.left, left),
        units_bytes((double)swapped_bytes(attachment), swap));
}
