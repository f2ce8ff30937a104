/* The parts of the resident memory, from recorded texts of status and smaps. */
#include "check.h"
#include "host/limits.h"
#include "host/resident.h"

#include <string.h>

#define KIB ((uint64_t)1 << 10)

static const char status_text[] = "Name:\tredis-server\nVmPeak:\t  100 kB\nVmSize:\t   90 kB\n"
                                  "VmHWM:\t   80 kB\nVmRSS:\t   70 kB\nRssAnon:\t   40 kB\n"
                                  "RssFile:\t   20 kB\nRssShmem:\t   10 kB\nVmSwap:\t    5 kB\n"
                                  "HugetlbPages:\t 2048 kB\nThreads:\t3\n";

static void test_status(void)
{
    struct resident resident;
    const char *big = "VmRSS: 18446744073709551615 kB\n";

    CHECK(resident_parse(status_text, strlen(status_text), &resident));
    CHECK(resident.rss == 70 * KIB && resident.anonymous == 40 * KIB);
    CHECK(resident.files == 20 * KIB && resident.shared == 10 * KIB && resident.swap == 5 * KIB);
    CHECK(resident.peak == 80 * KIB && resident.size == 90 * KIB);
    CHECK(resident.huge_tlb == 2048 * KIB);
    CHECK(!resident_parse("Name:\tkthreadd\n", 15, &resident) && !resident_parse("", 0, &resident));
    CHECK(resident_parse(big, strlen(big), &resident) && resident.rss == UINT64_MAX);
    /* Truncated anywhere: no crash, and nothing past its end. */
    for (size_t len = 0; len < strlen(status_text); len++)
        resident_parse(status_text, len, &resident);
}

#define MAPPING(line, rss, anonymous, huge)                                                        \
    line "\nSize:    999 kB\nRss:     " rss " kB\nPss:     1 kB\nAnonymous:   " anonymous          \
         " kB\nLazyFree:   1 kB\nAnonHugePages:   " huge " kB\nSwap:   2 kB\nVmFlags: rd wr mr\n"

/* A program, its heap, a stack with a guard, shared memory, and merged anonymous memory. */
/* clang-format off: it splits the texts into single characters */
static const char smaps_text[] = MAPPING(
    "00400000-00500000 r-xp 00000000 fe:00 77    /usr/bin/program", "100", "0",
    "0") MAPPING("00500000-00510000 rw-p 00100000 fe:00 77    /usr/bin/program", "40", "30",
                 "0") MAPPING("00600000-00700000 rw-p 00000000 00:00 0     [heap]", "50", "50", "0")
    MAPPING("7f0000000000-7f0000001000 ---p 00000000 00:00 0 ", "0", "0",
            "0") MAPPING("7f0000001000-7f0000801000 rw-p 00000000 00:00 0 ", "60", "60", "0")
        MAPPING("7f0001000000-7f0009000000 rw-p 00000000 00:00 0 ", "4096", "4096", "2048") MAPPING(
            "7f0010000000-7f0010001000 rw-s 00000000 00:01 5 /memfd:x (deleted)", "7", "0", "0")
            MAPPING("7f0020000000-7f0020001000 rw-s 00000000 00:01 6 /dev/zero (deleted)", "9", "0",
                    "0") MAPPING("7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]", "20",
                                 "20", "0")
                MAPPING("7ffc00030000-7ffc00032000 r-xp 00000000 00:00 0 [vdso]", "4", "0", "0");
/* clang-format on */

static const char socket_text[] = MAPPING(
    "7f0000000000-7f0003200000 rw-s 00000000 00:09 92876     socket:[92876]", "51200", "0", "0");

static struct resident_parts parse(const remote_addr *pointers, size_t count)
{
    struct resident_parts parts;

    CHECK(resident_parts_parse(smaps_text, strlen(smaps_text), pointers, count, &parts));
    return parts;
}

static uint64_t sum_of(const struct resident_parts *parts)
{
    return parts->heap + parts->stacks + parts->anonymous + parts->written + parts->files +
           parts->shared + parts->devices;
}

static void test_parts(void)
{
    const remote_addr inside[] = {0x7f0000800000}, far[] = {0x7f0000002000},
                      unguarded[] = {0x7f0008fff000};
    struct resident_parts parts = parse(inside, 1);

    CHECK(parts.mappings == 10 && parts.rss == 4386 * KIB && sum_of(&parts) == parts.rss);
    CHECK(parts.files == 114 * KIB && parts.written == 30 * KIB && parts.heap == 50 * KIB);
    CHECK(parts.stacks == 80 * KIB && parts.thread_stacks == 1);
    CHECK(parts.shared == 16 * KIB && parts.anonymous == 4096 * KIB);
    CHECK(parts.huge == 2048 * KIB && parts.lazy_free == 10 * KIB && parts.swap == 20 * KIB);
    parts = parse(far, 1); /* 8 MiB below the end: perhaps not a stack */
    CHECK(parts.thread_stacks == 0 && parts.stacks == 20 * KIB && sum_of(&parts) == parts.rss);
    parts = parse(unguarded, 1);
    CHECK(parts.thread_stacks == 0 && parse(NULL, 0).thread_stacks == 0);
}

/* By the whole name and the flags, as the kernel writes them. */
static void test_kinds(void)
{
    static const struct {
        const char *line;
        enum mapping_kind kind;
    } maps[] = {
        {"1000-2000 rw-p 00000000 00:00 0 ", MAPPING_ANONYMOUS},
        {"1000-2000 rw-p 00000000 00:00 0 [anon:a/b]", MAPPING_ANONYMOUS},
        {"1000-2000 rw-p 00000000 00:06 4 /dev/zero", MAPPING_ANONYMOUS},
        {"1000-2000 rw-s 00000000 00:01 4 /dev/zero (deleted)", MAPPING_SHARED},
        {"1000-2000 rw-s 00000000 00:01 4 [anon_shmem:x]", MAPPING_SHARED},
        {"1000-2000 rw-s 00000000 00:01 4 /SYSV00000000 (deleted)", MAPPING_SHARED},
        {"1000-2000 rw-s 00000000 00:01 4 /memfd:socket: (deleted)", MAPPING_SHARED},
        {"1000-2000 rw-s 00000000 00:09 9287601 socket:[9287601]", MAPPING_DEVICE},
        {"1000-2000 rw-s 00000000 00:0f 9 anon_inode:[perf_event]", MAPPING_DEVICE},
        {"1000-2000 rw-s 00000000 00:0f 9 anon_inode:i915.gem", MAPPING_DEVICE},
        {"1000-2000 rw-s 00000000 00:05 9 /dev/dri/card0", MAPPING_DEVICE},
        {"1000-2000 rw-s 00000000 00:0f 9 /[aio] (deleted)", MAPPING_DEVICE},
        {"1000-2000 rw-s 00000000 00:0e 9 /anon_hugepage (deleted)", MAPPING_HUGE},
        {"1000-2000 rw-p 00000000 fe:00 9 /home/socket:[1]/x", MAPPING_FILE},
        {"1000-2000 rw-p 00000000 fe:00 9 detached", MAPPING_FILE},
        {"1000-2000 r-xp 00000000 00:00 0 [vdso]", MAPPING_SPECIAL},
        {"1000-2000 rw-p 00000000 00:00 0 [heap]", MAPPING_HEAP},
        {"1000-2000 rw-p 00000000 00:00 0 [stack:42]", MAPPING_STACK},
    };
    struct resident_parts parts;
    struct map_entry entry;

    for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
        struct cursor line = cursor_of(maps[i].line, strlen(maps[i].line));
        CHECK(parse_map_line(&line, &entry) == 1 && mapping_kind(&entry) == maps[i].kind);
    }
    CHECK(resident_parts_parse(socket_text, strlen(socket_text), NULL, 0, &parts));
    CHECK(parts.devices == 51200 * KIB && parts.anonymous == 0 && parts.rss == parts.devices);
}

static void test_hostile_parts(void)
{
    const char *huge = "0-1000 rw-p 0 0:0 0 \nRss: 18446744073709551615 kB\nAnonymous: 9 kB\n"
                       "1000-2000 rw-p 0 0:0 0 \nRss: 18446744073709551615 kB\n";
    struct resident_parts parts;

    CHECK(!resident_parts_parse("", 0, NULL, 0, &parts));
    CHECK(!resident_parts_parse("Rss: 5 kB\n", 10, NULL, 0, &parts));
    CHECK(resident_parts_parse(huge, strlen(huge), NULL, 0, &parts) && parts.rss == UINT64_MAX);
    for (size_t len = 0; len < strlen(smaps_text); len += 7) {
        resident_parts_parse(smaps_text, len, NULL, 0, &parts);
        CHECK(sum_of(&parts) == parts.rss);
    }
}

static void test_events(void)
{
    const char *second = "low 0\nhigh 17\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n",
               *first = "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n";
    struct group_events events = {0};

    CHECK(group_events_parse(second, strlen(second), &events));
    CHECK(events.known && events.oom_kills == 1 && events.high == 17);
    CHECK(group_events_parse(first, strlen(first), &events));
    CHECK(events.oom_kills == 4 && events.high == 0);
    CHECK(!group_events_parse("", 0, &events) && !events.known);
    CHECK(!group_events_parse("oom_kill x\n", 11, &events) && !events.known);
}

int main(void)
{
    test_status();
    test_parts();
    test_kinds();
    test_hostile_parts();
    test_events();
    return check_result();
}
