/*
 * The gauges, and the birth of arena 0, in memory made by hand: in the forms of jemalloc 4 and 5,
 * while they change, and damaged.
 */
#include "check.h"
#include "jemalloc/reader/birth.h"
#include "jemalloc/reader/gauges.h"

#include <errno.h>
#include <string.h>

#define BASE    UINT64_C(0x10000)
#define BYTES   UINT64_C(0x80000)
#define SECOND  UINT64_C(1000000000)
#define STATS   (BASE + 0x100) /* ctl_stats_t */
#define MERGED  (BASE + 0x200) /* ctl_arena_t of all arenas */
#define FIRST   (BASE + 0x300) /* that of arena 0 */
#define ASTATS  (BASE + 0x400)
#define HEAD    (BASE + 0x800) /* ctl_arenas_t */
#define POINTER (BASE + 0x10)  /* ctl_stats */
#define ARENAS  (BASE + 0x18)  /* ctl_arenas */
#define LIST    (BASE + 0x40)  /* arenas[] */
#define BASES   (BASE + 0x1000)
#define ARENA   (BASE + 0x2000) /* arena_t number 0; the next one 0x40000 behind it */
#define BORN    0x18a8          /* where base and create_time are in them */

enum { UPTIME = 0x78 };

static unsigned char bytes[BYTES];
static size_t reads, changes; /* changes: reads after which the memory is no longer changed */

static void put(remote_addr at, uint64_t value)
{
    memcpy(bytes + (at - BASE), &value, sizeof value);
}

static uint64_t get(remote_addr at)
{
    uint64_t value;

    memcpy(&value, bytes + (at - BASE), sizeof value);
    return value;
}

static bool read_bytes(void *ctx, remote_addr addr, void *buf, size_t len)
{
    (void)ctx;
    if (reads++ < changes) { /* a collection that is writing its results */
        put(STATS, get(STATS) + 1);
        put(HEAD, get(HEAD) + 1);
    }
    errno = EFAULT;
    if (addr < BASE || addr - BASE > BYTES || len > BYTES - (addr - BASE))
        return false;
    memcpy(buf, bytes + (addr - BASE), len);
    return true;
}

static const struct memory_source source_bytes = {.read = read_bytes};
static struct memory memory;
static struct reader_source source = {.memory = &memory};

/* jemalloc 5: pointers to the gauges and to the records of the arenas. */
static struct gauges_memory make_five(void)
{
    struct gauges_memory places = {
        .source = source,
        .found = true,
        .getters = {.stats = POINTER,
                    .through = true,
                    .offset = {0, 8, 16, 32, 40, 48},
                    .epochs = {.list = {BASE + 0x30, ARENAS}, .count = 2},
                    .arenas = {.list = {BASE + 0x38, LIST}, .count = 2},
                    .uptime = UPTIME}};

    memset(bytes, 0, sizeof bytes);
    put(POINTER, STATS);
    put(ARENAS, HEAD);
    put(HEAD, 17);
    put(HEAD + 8, 2);
    put(HEAD + 24, MERGED);
    put(HEAD + 40, FIRST);
    put(MERGED + 56, 100);
    put(FIRST + 80, ASTATS);
    static const uint64_t values[] = {300000, 409600, 50000, 0, 819200, 1638400, 8192};
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        put(STATS + 8 * i, values[i]);
    reads = changes = 0;
    return places;
}

/* jemalloc 4: the gauges themselves, and a variable for the epoch. */
static struct gauges_memory make_four(void)
{
    struct gauges_memory places = make_five();

    places.getters = (struct getters){
        .stats = STATS, .offset = {0, 8, 16, 24, 32, 0}, .epochs = {.list = {HEAD}, .count = 1}};
    put(STATS + 24, 819200);
    put(STATS + 32, 1638400);
    return places;
}

static enum gauges_state state_of(struct gauges_memory *places)
{
    struct gauges_reading reading;

    gauges_read(places, &reading);
    CHECK(gauges_known(&reading) || (!reading.gauges.active && !reading.has_epoch));
    return reading.state;
}

static void test_known(void)
{
    struct gauges_memory five = make_five();
    struct gauges_reading reading;

    gauges_read(&five, &reading);
    CHECK(reading.state == GAUGES_KNOWN && reading.has_epoch && reading.epoch == 17);
    CHECK(reading.gauges.allocated == 300000 && reading.gauges.active == 409600);
    CHECK(reading.gauges.metadata == 50000 && reading.gauges.resident == 819200);
    CHECK(reading.gauges.mapped == 1638400);
    CHECK(reading.gauges.has_retained && reading.gauges.retained == 8192);
    CHECK(!reading.gauges.has_pinned && reading.gauges.pinned == 0);
    CHECK(reading.aged == AGE_UNKNOWN); /* as in a core file: there is no process */

    struct gauges_memory newer = make_five(); /* 5.4 */
    newer.getters.offset[CTL_PINNED] = 56;
    put(STATS + 56, 12288);
    gauges_read(&newer, &reading);
    CHECK(reading.gauges.has_pinned && reading.gauges.pinned == 12288);
    put(STATS + 56, 12289); /* no number of pages */
    CHECK(state_of(&newer) == GAUGES_UNPROVEN);

    struct gauges_memory four = make_four();
    gauges_read(&four, &reading);
    CHECK(reading.state == GAUGES_KNOWN && reading.has_epoch && reading.epoch == 17);
    CHECK(reading.gauges.resident == 819200 && !reading.gauges.has_retained);
}

static void test_never(void)
{
    struct gauges_memory places = make_five();

    put(POINTER, 0);
    CHECK(state_of(&places) == GAUGES_NEVER);
    places = make_four();
    memset(bytes, 0, sizeof bytes);
    CHECK(state_of(&places) == GAUGES_NEVER);
    places.found = false;
    CHECK(state_of(&places) == GAUGES_NOT_FOUND);
}

static void test_while_they_change(void)
{
    struct gauges_memory places = make_five();
    struct gauges_reading reading;

    changes = 4;
    gauges_read(&places, &reading);
    CHECK(reading.state == GAUGES_KNOWN && reading.epoch == 17 + 4);
    CHECK(reading.gauges.allocated == 300000 + 4 && reads > 4);
    changes = SIZE_MAX;
    CHECK(state_of(&places) == GAUGES_UNPROVEN);

    places = make_five();
    put(MERGED + 56, 42); /* the arenas are being added up again */
    CHECK(state_of(&places) == GAUGES_COLLECTING);
}

static void test_damaged(void)
{
    static const struct damage {
        remote_addr at;
        uint64_t value;
        enum gauges_state state;
    } damages[] = {
        {POINTER, 1, GAUGES_UNREADABLE},
        {POINTER, UINT64_MAX - 16, GAUGES_UNREADABLE},
        {POINTER, BASE + BYTES - 16, GAUGES_UNREADABLE},
        {STATS + 8, 409601, GAUGES_UNPROVEN},    /* active */
        {STATS + 32, 12345, GAUGES_UNPROVEN},    /* resident */
        {ARENAS, 0, GAUGES_UNPROVEN},            /* no records of arenas */
        {ARENAS, UINT64_MAX, GAUGES_UNPROVEN},   /* not readable */
        {HEAD + 8, 0, GAUGES_UNPROVEN},          /* no arena */
        {HEAD + 8, UINT32_MAX, GAUGES_UNPROVEN}, /* too many */
        {HEAD + 24, 0, GAUGES_UNPROVEN},
        {HEAD + 24, UINT64_MAX - 7, GAUGES_UNPROVEN},
        {HEAD + 40, 3, GAUGES_UNPROVEN},
        {FIRST + 80, UINT64_MAX - 7, GAUGES_KNOWN}, /* only the age needs it */
    };

    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        struct gauges_memory places = make_five();
        put(damages[i].at, damages[i].value);
        CHECK(state_of(&places) == damages[i].state);
    }
}

/* ---- the birth of arena 0 ---- */

static struct procfs proc;
static struct target target;

static struct gauges_memory make_arenas(uint64_t now)
{
    struct gauges_memory places = make_five();

    put(LIST, ARENA);
    put(LIST + 8, ARENA + 0x40000);
    for (uint32_t i = 0; i < 2; i++) {
        put(BASES + 64 * i, i);
        put(ARENA + 0x40000 * i + BORN, BASES + 64 * i);
        put(ARENA + 0x40000 * i + BORN + 8, now + i);
    }
    return places;
}

static uint64_t birth_of(const struct gauges_memory *places, uint64_t uptime, size_t count)
{
    const struct birth_question question = {.source = &places->source,
                                            .arenas = &places->getters.arenas,
                                            .uptime = uptime,
                                            .count = count};

    return birth_find(&question);
}

static void test_birth(void)
{
    uint64_t now = clock_now();
    struct gauges_memory places = make_arenas(now);

    CHECK(birth_of(&places, 0, 1) == now);
    CHECK(birth_of(&places, 0, 2) == now);
    CHECK(birth_of(&places, 0, ARENAS_MAX) == now);
    put(LIST + 16, 7); /* not only pointers: another array */
    CHECK(birth_of(&places, 0, ARENAS_MAX) == 0);
    put(LIST + 8, 0); /* an arena that is not there */
    CHECK(birth_of(&places, 0, 2) == now);
    CHECK(birth_of(&places, 3600 * SECOND, 1) == 0); /* it would be collected in the future */
    CHECK(birth_of(&places, UINT64_MAX, 1) == 0);
}

static void test_no_birth(void)
{
    uint64_t now = clock_now();
    struct gauges_memory places = make_arenas(now);

    put(BASES + 64, 5); /* arena 1 has another number */
    CHECK(birth_of(&places, 0, 2) == 0);
    places = make_arenas(now);
    put(BASES, 1);
    CHECK(birth_of(&places, 0, 1) == 0);
    places = make_arenas(now);
    put(ARENA + BORN + 8, now - 86400 * SECOND); /* before the process */
    CHECK(birth_of(&places, 0, 1) == 0);
    places = make_arenas(now);
    put(ARENA + BORN, 0);
    CHECK(birth_of(&places, 0, 1) == 0);
    put(LIST, 0);
    CHECK(birth_of(&places, 0, 1) == 0);
    put(LIST, UINT64_MAX - 15);
    CHECK(birth_of(&places, 0, 1) == 0);
}

/* Two times are possible, or all words look like one. */
static void test_ambiguous_birth(void)
{
    struct gauges_memory places;
    uint64_t now;

    usleep(300000); /* so that the process is older than both times */
    now = clock_now();
    places = make_arenas(now - SECOND / 5);
    CHECK(birth_of(&places, 0, 1) == now - SECOND / 5);
    put(ARENA + 0x100, BASES);
    put(ARENA + 0x108, now);
    CHECK(birth_of(&places, 0, 1) == 0);
    places = make_arenas(now);
    for (remote_addr at = ARENA + 0x2000; at < ARENA + 0x30000; at += 8)
        put(at, now);
    reads = 0;
    CHECK(birth_of(&places, 0, 1) == 0 && reads < 20000);
}

int main(void)
{
    memory_open_source(&memory, &source_bytes);
    source.target = &target;
    test_known();
    test_never();
    test_while_they_change();
    test_damaged();
    if (!CHECK(procfs_open(&proc, "/proc") == 0) ||
        !CHECK(target_open(&target, &proc, getpid(), NULL) == FAULT_NONE))
        return check_result();
    test_birth();
    test_no_birth();
    test_ambiguous_birth();
    target_close(&target);
    procfs_close(&proc);
    memory_close(&memory);
    return check_result();
}
