/*
 * Objects with any bytes, in a process whose module has damaged type information. The input: the
 * length of the object, the number of edits, the edits (a place in the module, how, a word),
 * the object.
 */
#include "fuzz.h"
#include "tests/unit/contents_rig.h"

enum { HEAD = 4, EDIT = 11, READS_MAX = 64, BYTES_MAX = 64 << 10 };

static struct contents_rig rig;

static uint64_t chosen_word(uint8_t kind, uint64_t value)
{
    switch (kind & 3) {
    case 0:
        return value;
    case 1:
        return RIG_MODULE + value % (RIG_MODULE_SIZE + 64);
    case 2:
        return RIG_MODULE + value % 1024 * 8;
    default:
        return RIG_HEAP + value % (RIG_HEAP_SIZE + 64);
    }
}

static size_t apply_edits(const uint8_t *data, size_t size, size_t count)
{
    size_t at = 0;

    for (; count && size - at >= EDIT; count--, at += EDIT) {
        uint16_t place;
        uint64_t value;
        memcpy(&place, data + at + 1, sizeof place);
        memcpy(&value, data + at + 3, sizeof value);
        value = chosen_word(data[at], value);
        memcpy(rig.module + place % (RIG_MODULE_SIZE - 8), &value, sizeof value);
    }
    return at;
}

static void judge_checked(const uint8_t *bytes, size_t len, const uint8_t *second,
                          size_t second_len)
{
    size_t reads = rig.reads, read = rig.bytes;
    struct content content = rig_judge_two(&rig, bytes, len, second, second_len);

    expect(content.kind < CONTENT_KINDS && content_kind_name(content.kind));
    if (content.kind == CONTENT_CLASS || content.kind == CONTENT_TYPE)
        expect(content.detail && *content.detail);
    expect(strlen(content.shape) <= CONTENT_SHAPE);
    expect(content.kind != CONTENT_TEXT || content.at + (size_t)content.text_len <= len ||
           !content.text_len);
    expect(rig.reads - reads <= READS_MAX && rig.bytes - read <= BYTES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t points[] = {CLASS_VTABLE, BASE_VTABLE, FAMILY_VTABLE};
    size_t at, first;

    if (size < HEAD)
        return -1;
    expect(contents_rig_begin(&rig, "7Session"));
    at = HEAD + apply_edits(data + HEAD, size - HEAD, data[0]);
    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        uint64_t words[3] = {data[2], RIG_MODULE + points[i] + data[1] / 32 * 8u, 0};
        judge_checked((const uint8_t *)(words + i % 2), 16, NULL, 0);
    }
    first = size - at < CONTENT_FIRST ? size - at : CONTENT_FIRST;
    judge_checked(data + at, first, data + at + first, size - at - first);
    contents_rig_end(&rig);
    return 0;
}
