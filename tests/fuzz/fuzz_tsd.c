/*
 * The data of threads, damaged, and their control blocks. The input is a form, a place, flags, and
 * edits: of which thread's word, and to what.
 */
#include "elf/thread_search.h"
#include "fuzz.h"
#include "tests/unit/tsd_rig.h"

enum { HEAD = 4, EDIT = 12, READS = 4 * (16384 + 4096) };
enum { FLAG_NO_VERSION = 1, FLAG_OFFSET = 2, FLAG_FILLED = 4, FLAG_NO_PROFILING = 8 };

static struct tsd_rig rig;

static uint64_t edited_word(uint8_t kind, uint64_t value)
{
    switch (kind >> 4 & 3) {
    case 0:
        return value;
    case 1: /* something in the heap */
        return TSD_HEAP + value % sizeof rig.heap;
    case 2: /* a thread */
        return tsd_rig_pointer(value % RIG_THREADS) + (value >> 8) % 16 - 8;
    default:
        return value % 4096;
    }
}

static void apply_edits(const uint8_t *data, size_t size)
{
    for (; size >= EDIT; size -= EDIT, data += EDIT) {
        unsigned char *block = rig.blocks[data[0] % RIG_THREADS];
        size_t limit = sizeof rig.blocks[0] / 8;
        uint64_t value;
        uint16_t word;
        memcpy(&word, data + 2, sizeof word);
        memcpy(&value, data + 4, sizeof value);
        value = edited_word(data[0], value);
        if (data[1] & 1) /* profiling data, an arena */
            memcpy(rig.heap + word % (sizeof rig.heap / 8) * 8, &value, sizeof value);
        else
            memcpy(block + word % limit * 8, &value, sizeof value);
    }
}

static void search_pointers(void)
{
    struct searched_thread list[RIG_THREADS] = {0};
    struct target target = {0};
    struct thread_search search = {.modules = &rig.modules,
                                   .target = &target,
                                   .memory = &rig.memory,
                                   .list = list,
                                   .count = RIG_THREADS,
                                   .id_offset = 48,
                                   .bytes_left = 1 << 20};

    for (size_t i = 0; i < RIG_THREADS; i++)
        list[i].id = (pid_t)(100 + i);
    list[0].pointer = tsd_rig_pointer(0);
    search_musl(&search);
    expect(search.found <= RIG_THREADS);
}

static void take_all(const struct tsd_place *place)
{
    struct tsd_data data;

    expect(place->layout && place->size <= TSD_WINDOW);
    for (size_t i = 0; i < RIG_THREADS; i++)
        if (tsd_rig_take(&rig, place, i, &data))
            expect(data.condition <= TSD_ENDING && (!data.tdata || data.active_at));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tsd_place place;
    const char *why;

    if (size < HEAD)
        return -1;
    expect(tsd_rig_begin(&rig, &tsd_forms[data[0] % ARRAY_LEN(tsd_forms)],
                         data[1] % ((RIG_BLOCK - 1400) / 8u) * 8u));
    for (size_t i = 0; i + 1 < RIG_THREADS; i++)
        tsd_rig_used(&rig, i, 1000 * i + data[3], 50 * i, 700 + i);
    tsd_rig_sampled(&rig, 0, true, 700);
    if (data[2] & FLAG_NO_VERSION)
        rig.search.version.number = 0;
    if (data[2] & FLAG_OFFSET)
        rig.search.offset = -8 * (int64_t)data[3];
    rig.search.samples = !(data[2] & FLAG_NO_PROFILING);
    if (data[2] & FLAG_FILLED) /* words that look like many things */
        for (size_t i = 0; i < RIG_THREADS; i++)
            for (size_t k = 0; k + 8 <= RIG_BLOCK; k += 8)
                memcpy(rig.blocks[i] + k, &(uint64_t){k % 3 ? tsd_rig_tdata(0) + k % 64 * 16 : k},
                       8);
    apply_edits(data + HEAD, size - HEAD);
    if (tsd_place_find(&place, &rig.search, &why))
        take_all(&place);
    else
        expect(!place.layout && why);
    search_pointers();
    expect(rig.reads <= READS);
    tsd_rig_end(&rig);
    return 0;
}
