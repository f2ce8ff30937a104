/* The kernel's records of page faults: their ring, and their bytes, forged. */
#include "check.h"
#include "perf/ring.h"

#include <string.h>

enum { SIZE = 4096 };

/* A ring as the kernel would have written it, and the words of one record. */
struct rig {
    struct perf_event_mmap_page page;
    unsigned char bytes[SIZE], whole[RECORD_MAX];
    struct ring ring;
};

static void begin_rig(struct rig *rig, uint64_t at)
{
    memset(rig, 0, sizeof *rig);
    rig->page.data_head = rig->page.data_tail = at;
    rig->ring =
        (struct ring){.page = &rig->page, .bytes = rig->bytes, .size = SIZE, .whole = rig->whole};
}

/* Writes bytes at the head, around the end of the ring. */
static void put_bytes(struct rig *rig, const void *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        rig->bytes[rig->page.data_head++ % SIZE] = ((const unsigned char *)data)[i];
}

static void put_record(struct rig *rig, uint32_t type, uint16_t size, unsigned char fill)
{
    struct perf_event_header header = {.type = type, .size = size};

    put_bytes(rig, &header, sizeof header);
    for (size_t i = sizeof header; i < size; i++)
        put_bytes(rig, &fill, 1);
}

static void test_around_the_end(void)
{
    static struct rig rig;
    struct ring_record record;

    for (uint64_t start = SIZE - 64; start <= SIZE; start += 8) {
        begin_rig(&rig, start);
        put_record(&rig, 7, 48, 'a');
        put_record(&rig, 8, 8, 0);
        uint64_t at = ring_begin(&rig.ring);
        CHECK(ring_next(&rig.ring, &at, &record) && record.type == 7 && record.len == 40);
        CHECK(record.body[0] == 'a' && record.body[39] == 'a');
        CHECK(ring_next(&rig.ring, &at, &record) && record.type == 8 && record.len == 0);
        CHECK(!ring_next(&rig.ring, &at, &record) && !rig.ring.broken);
        ring_release(&rig.ring, at);
        CHECK(rig.page.data_tail == rig.page.data_head && at == start + 56);
    }
}

/* Positions and sizes that contradict each other end the reading at the head. */
static void test_contradictions(void)
{
    static struct rig rig;
    struct ring_record record;
    uint64_t at;

    for (uint16_t size = 0; size < 8; size++) { /* shorter than its header */
        begin_rig(&rig, 0);
        put_record(&rig, 1, 8, 0);
        memcpy(rig.bytes + 6, &size, sizeof size);
        at = 0;
        CHECK(!ring_next(&rig.ring, &at, &record) && rig.ring.broken && at == 8);
    }
    begin_rig(&rig, 0); /* longer than the data in the ring */
    put_record(&rig, 1, 64, 0);
    rig.page.data_head = 56;
    at = 0;
    CHECK(!ring_next(&rig.ring, &at, &record) && rig.ring.broken && at == 56);
    begin_rig(&rig, 0); /* more than the ring holds */
    rig.page.data_head = SIZE + 8;
    CHECK(!ring_next(&rig.ring, &(uint64_t){0}, &record) && rig.ring.broken);
    begin_rig(&rig, 16); /* the head is behind the tail */
    rig.page.data_head = 8;
    at = 16;
    CHECK(!ring_next(&rig.ring, &at, &record) && rig.ring.broken && at == 8);
    begin_rig(&rig, 0); /* less than a header */
    rig.page.data_head = 4;
    CHECK(!ring_next(&rig.ring, &(uint64_t){0}, &record) && rig.ring.broken);
}

/* A sample of two registers, with a chain of three, and eight bytes of a stack. */
struct forged {
    uint32_t pid, tid;
    uint64_t time, addr, event, chain_len, chain[4], abi, regs[2], stack_size;
    unsigned char stack[16];
    uint64_t copied;
};

static const struct forged good = {
    .pid = 10,
    .tid = 11,
    .time = 12,
    .addr = 13,
    .event = 14,
    .chain_len = 4,
    .chain = {(uint64_t)PERF_CONTEXT_USER, 100, 101, 102},
    .abi = PERF_SAMPLE_REGS_ABI_64,
    .regs = {200, 201},
    .stack_size = 16,
    .stack = "abcdefgh",
    .copied = 8,
};
static const uint64_t two_registers = 1 << 3 | 1 << 9;

static bool parse_forged(struct sample_record *out, const struct forged *forged, size_t len)
{
    return record_sample(out, (const unsigned char *)forged, len, two_registers);
}

static void test_sample(void)
{
    static struct sample_record out;

    CHECK(parse_forged(&out, &good, sizeof good));
    CHECK(out.pid == 10 && out.tid == 11 && out.time_ns == 12 && out.addr == 13);
    CHECK(out.event == 14 && out.state.chain_len == 3 && out.state.chain[2] == 102);
    CHECK(out.state.mask == two_registers && out.state.regs[3] == 200 && out.state.regs[9] == 201);
    CHECK(out.state.stack_len == 8 && memcmp(out.state.stack, "abcdefgh", 8) == 0);
    for (size_t len = 0; len < sizeof good; len++) /* each part that is cut off is missed */
        CHECK(!parse_forged(&out, &good, len));
}

static void test_odd_samples(void)
{
    static struct sample_record out;
    struct forged forged = good;

    forged.copied = 17; /* more than was reserved for it */
    CHECK(parse_forged(&out, &forged, sizeof forged) && out.state.stack_len == 16);
    forged.stack_size = UINT64_MAX;
    CHECK(!parse_forged(&out, &forged, sizeof forged));
    forged.stack_size = 0; /* then no length follows */
    CHECK(parse_forged(&out, &forged, offsetof(struct forged, stack)));
    CHECK(out.state.stack_len == 0);
    forged.abi = PERF_SAMPLE_REGS_ABI_32;
    CHECK(parse_forged(&out, &forged, offsetof(struct forged, stack)) && out.state.mask == 0);
    forged = good;
    forged.chain_len = UINT64_MAX / 8 + 2;
    CHECK(!parse_forged(&out, &forged, sizeof forged));
    forged.chain_len = 1000;
    CHECK(!parse_forged(&out, &forged, sizeof forged));
}

/* A chain that is longer than the tool keeps is cut, and what follows it is still read. */
static void test_long_chain(void)
{
    static struct sample_record out;
    static uint64_t words[4 + 1 + CHAIN_MAX + 50 + 2];

    words[4] = CHAIN_MAX + 50;
    for (size_t i = 0; i < CHAIN_MAX + 50; i++)
        words[5 + i] = i;
    CHECK(record_sample(&out, (const unsigned char *)words, sizeof words, 0));
    CHECK(out.state.chain_len == CHAIN_MAX && out.state.chain[CHAIN_MAX - 1] == CHAIN_MAX - 1);
}

static void test_lost(void)
{
    uint64_t words[3] = {5, 77, 0};

    CHECK(record_lost((const unsigned char *)words, sizeof words) == 77);
    CHECK(record_lost((const unsigned char *)words, 15) == 0);
}

static void test_new_thread(void)
{
    const uint32_t thread[] = {7, 7, 9, 8}, process[] = {9, 7, 9, 7};

    CHECK(record_new_thread((const unsigned char *)thread, sizeof thread) == 7);
    CHECK(record_new_thread((const unsigned char *)process, sizeof process) == 0);
    CHECK(record_new_thread((const unsigned char *)thread, 7) == 0);
}

int main(void)
{
    test_around_the_end();
    test_contradictions();
    test_sample();
    test_odd_samples();
    test_long_chain();
    test_lost();
    test_new_thread();
    return check_result();
}
