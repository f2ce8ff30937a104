/* The kernel's records of page faults, and the ring with them. */
#include "fuzz.h"
#include "perf/ring.h"

#include <string.h>

static struct perf_event_mmap_page page;
static unsigned char whole[RECORD_MAX];

static void check_inside(const unsigned char *bytes, size_t len, const unsigned char *at,
                         size_t part)
{
    expect(part == 0 || (at >= bytes && at + part <= bytes + len));
}

static void check_sample(const struct ring_record *record, uint64_t registers)
{
    static struct sample_record sample;

    if (!record_sample(&sample, record->body, record->len, registers))
        return;
    expect(sample.state.mask == 0 || sample.state.mask == registers);
    expect(sample.state.chain_len <= CHAIN_MAX);
    expect(sample.state.chain_len <= record->len / sizeof *sample.state.chain);
    check_inside(record->body, record->len, sample.state.stack, sample.state.stack_len);
}

/* The first words are the registers, the positions and the power of the size; the rest is the ring.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ring ring = {.page = &page, .whole = whole};
    struct ring_record record;
    uint64_t head[3], at;

    if (size < sizeof head + 8)
        return 0;
    memcpy(head, data, sizeof head);
    ring.bytes = data + sizeof head;
    for (ring.size = 8; ring.size * 2 <= size - sizeof head; ring.size *= 2)
        continue;
    page.data_tail = at = head[1];
    page.data_head = head[2];
    while (at - head[1] < ring.size && ring_next(&ring, &at, &record)) {
        expect(record.len < RECORD_MAX && at - head[1] <= ring.size);
        check_sample(&record, head[0]);
        (void)record_lost(record.body, record.len);
    }
    return 0;
}
