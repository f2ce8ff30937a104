/*
 * A profile in memory that is damaged, or that changes while it is read. The input is a layout,
 * flags, and edits: of which word, when (0: before the profile is found, 1: after it, else before
 * that read of memory), and to what.
 */
#include "fuzz.h"
#include "tests/unit/reader_rig.h"

enum { EDITS_MAX = 32, EDIT_BYTES = 12, READS_MAX = 2000000, TEXT_MAX = 16 << 20 };
enum { FLAG_STILL = 1, FLAG_NO_PERIOD = 2, FLAG_NO_VERSION = 4, FLAG_TWICE = 8 };

struct edit {
    uint8_t kind, when;
    uint16_t word;
    uint64_t value;
};

static struct rig rig;
static struct edit edits[EDITS_MAX];
static size_t edit_count;

/* The words of the variables come first, then those of the heap. */
static remote_addr word_at(uint64_t nth)
{
    enum { VARIABLES = 256 };
    const uint64_t heap = (rig.forged.used - RIG_SEGMENT) / 8;

    nth %= VARIABLES + heap;
    return nth < VARIABLES ? RIG_DATA + 8 * nth : RIG_DATA + RIG_SEGMENT + 8 * (nth - VARIABLES);
}

static uint64_t edited(const struct edit *edit, uint64_t former)
{
    switch (edit->kind % 6) {
    case 0:
        return edit->value;
    case 1: /* an object, or the middle of one */
        return word_at(edit->value);
    case 2:
        return forged_get(&rig.forged, word_at(edit->value));
    case 3:
        return former + edit->value - (UINT64_C(1) << 63);
    case 4:
        return (former & ~(uint64_t)UINT32_MAX) | (edit->value & UINT32_MAX);
    default:
        return former ^ UINT64_C(1) << (edit->value % 64);
    }
}

static void apply_edits(size_t when)
{
    for (size_t i = 0; i < edit_count; i++) {
        const remote_addr at = word_at(edits[i].word);
        if (edits[i].when == when)
            forged_put(&rig.forged, at, edited(&edits[i], forged_get(&rig.forged, at)));
    }
}

static void edit_before_read(struct rig *changed, remote_addr addr, size_t len)
{
    (void)addr;
    (void)len;
    if (changed->reads < UINT8_MAX)
        apply_edits(changed->reads + 1);
    expect(changed->reads < READS_MAX);
}

static void take_edits(const uint8_t *data, size_t size)
{
    edit_count = 0;
    for (; size >= EDIT_BYTES && edit_count < EDITS_MAX; size -= EDIT_BYTES, data += EDIT_BYTES) {
        struct edit *edit = &edits[edit_count++];
        edit->kind = data[0];
        edit->when = data[1];
        memcpy(&edit->word, data + 2, sizeof edit->word);
        memcpy(&edit->value, data + 4, sizeof edit->value);
    }
}

/* Returns the end of a line of the profile: printable, and of a known kind. */
static const char *check_line(const char *line, size_t *stacks, size_t *threads, bool in_head)
{
    const char *end = strchr(line, '\n');

    expect(end != NULL);
    for (const char *p = line; p < end; p++)
        expect((*p >= ' ' && *p <= '~') || *p == '\t');
    if (strncmp(line, "  t*: ", 6) != 0 && strncmp(line, "  t", 3) == 0)
        *threads += in_head;
    else if (*line == '@')
        ++*stacks;
    else
        expect(line == end || strncmp(line, "  t*: ", 6) == 0 ||
               strcmp(line, "MAPPED_LIBRARIES:\n") == 0);
    return end + 1;
}

static void check_text(const struct reading *reading)
{
    const char *at = (const char *)rig.sink.bytes;
    size_t stacks = 0, threads = 0;

    expect(strncmp(at, "heap_v2/", 8) == 0);
    at = strchr(at, '\n') + 1;
    while (*at)
        at = check_line(at, &stacks, &threads, stacks == 0);
    expect(stacks == reading->stacks && threads == reading->threads);
}

static void read_it(void)
{
    fault_code rc = rig_read(&rig);

    expect(rc != FAULT_INTERNAL && rig.sink.len <= TEXT_MAX);
    if (rc == FAULT_NONE)
        check_text(&rig.reading);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return -1;
    expect(rig_sample(&rig, &forged_layouts[data[0] % ARRAY_LEN(forged_layouts)]));
    take_edits(data + 2, size - 2);
    rig.sink.limit = TEXT_MAX;
    rig.source.is_still = data[1] & FLAG_STILL;
    rig.before = edit_before_read;
    if (data[1] & FLAG_NO_PERIOD)
        rig.instance.globals.lg_sample = 0;
    if (data[1] & FLAG_NO_VERSION)
        rig.instance.version[0] = '\0';
    apply_edits(0);
    if (rig_open(&rig) == FAULT_NONE) {
        apply_edits(1);
        for (int i = 0; i < (data[1] & FLAG_TWICE ? 2 : 1); i++)
            read_it();
    }
    rig_finish(&rig);
    return 0;
}
