/* cgroup v2: a target at its memory limit, and a frozen one. */
#include "guest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"

/*
 * Each CPU may keep a batch of freed pages of kernel memory, and they count as used until the limit
 * is hit (mm/memcontrol.c, MEMCG_CHARGE_BATCH): the tool would refuse then.
 */
enum { PAGE = 4096, SPARE_PAGES = 48, BATCH_PAGES = 64, DUMPS = 60, FREEZE_SECONDS = 30 };

static const char *new_group(const char *name)
{
    const char *path = format(ROOT "/%s", name);

    if (strstr(read_file(ROOT "/cgroup.controllers"), "memory"))
        write_file(ROOT "/cgroup.subtree_control", "+memory");
    if (mkdir(path, 0755) == 0)
        return path;
    check_skip("no control group can be made");
    return NULL;
}

static void remove_group(const char *path)
{
    processes_end_all();
    if (!WAIT_UNTIL(rmdir(path) == 0, 10))
        check_fail("the group is still in use");
}

static long number_in(const char *group, const char *file)
{
    return atol(read_file(format("%s/%s", group, file)));
}

static long event_count(const char *group, const char *name)
{
    const char *found = strstr(read_file(format("%s/memory.events", group)), format("\n%s ", name));

    return found ? atol(found + strlen(name) + 2) : -1;
}

static void dump_at_limit(const char *group)
{
    struct redis redis;

    REQUIRE(access(format("%s/memory.max", group), W_OK) == 0, "no memory controller");
    if (!redis_start(&redis, group))
        return;
    struct result result = TOOL("on", text_of(redis.pid));
    REQUIRE(result.code == 0, "%s", result_text(&result));
    redis_fill(&redis, 5000);
    /* jemalloc keeps memory from the first dump on. */
    result = TOOL("dump", "-o", "-", text_of(redis.pid));
    REQUIRE(result.code == 0, "%s", result_text(&result));
    long before = number_in(group, "memory.current");
    long spare = (SPARE_PAGES + BATCH_PAGES * sysconf(_SC_NPROCESSORS_ONLN)) * PAGE;
    REQUIRE(write_file(format("%s/memory.max", group), text_of(before + spare)),
            "no limit can be set");
    size_t streamed = 0;
    for (int i = 0; i < DUMPS; i++) {
        result = TOOL("dump", "-o", "-", text_of(redis.pid));
        REQUIRE(result.code == 0 && strncmp(result.out, "heap_v2/", 8) == 0, "dump %d: %s", i,
                result_text(&result));
        streamed += result.out_len;
    }
    REQUIRE(event_count(group, "oom_kill") == 0 && redis_answers(&redis), "it was killed");
    long after = number_in(group, "memory.current");
    REQUIRE((long)streamed > spare, "%zu bytes streamed show nothing", streamed);
    REQUIRE(after - before <= spare, "memory.current grew by %ld", after - before);
    check_note("%zu KiB streamed, memory.current %ld KiB %+ld", streamed / 1024, before / 1024,
               (after - before) / 1024);
}

static void memory_limit(void)
{
    const char *group = new_group("full");

    if (!group)
        return;
    dump_at_limit(group);
    remove_group(group);
}

/* ---- every verb at the limit ---- */

enum { VERB_WORDS = 10, LONG_RUNS = 100 };

/* As in tests/containers/limits.py, without watch, which tries again until it is ended. */
static const char *const limited[][VERB_WORDS] = {
    {"--version"}, /* without an attach: that the victim itself survives is no luck */
    {"on", "--call"},
    {"off", "--call"},
    {"dump"},
    {"dump", "--call", "-o", "-"},
    {"mallctl", "stats.allocated", "-p"},
    {"stats", "--full", "--json"},
    {"stats", "--full"},
    {"frag"},
    {"mallctl", "prof.reset=12", "-p"},
    {"purge"},
    {"top", "--once"},
    {"record", "--call", "-d", "1ms", "-o", "/dev/null"},
    {"leak", "-d", "1ms", "--settle", "1ms"},
    {"on", "--no-call"},
    {"dump", "--no-call", "-o", "-"},
    {"stats", "--no-call"},
    {"stats", "--bins"},
    {"peek"},
};

/*
 * Leaves the group that many pages. A lower memory.max kills; a lower memory.high makes the
 * kernel give back its batches (mm/memcontrol.c, memory_high_write).
 */
static bool leave_pages(const char *group, long left)
{
    const char *high = format("%s/memory.high", group), *max = format("%s/memory.max", group);

    return write_file(high, "4096") && write_file(high, "max") &&
           write_file(max, text_of(number_in(group, "memory.current") + left * PAGE));
}

static bool run_limited(const char *group, const char *const *verb, long left, unsigned *refused)
{
    struct start start = {.group = group};
    const char *words[VERB_WORDS + 2] = {"jeattach"};
    struct victim victim;
    unsigned n = 0;

    if (!victim_start(&victim, "nanosleep", "20", &start))
        return false;
    while (verb[n]) {
        words[n + 1] = verb[n];
        n++;
    }
    words[n + 1] = text_of(victim.pid);
    bool ready = victim_goes_on(&victim, 3) && leave_pages(group, left);
    struct result result = tool_run(NULL, words);
    bool survived = victim_goes_on(&victim, 2);
    *refused += result.code == 7;
    if (!ready)
        check_fail("no limit can be set");
    else if (!survived || event_count(group, "oom_kill"))
        check_fail("%s %s with %ld pages left killed: %s", words[1], words[2], left,
                   result_text(&result));
    else if (result.code == 7)
        result_is(&result, 7, (const char *const[]){"its memory limit is reached", NULL});
    else if (result.code != 0 && n > 1)
        check_fail("%s %s with %ld pages left: %s", words[1], words[2], left, result_text(&result));
    write_file(format("%s/memory.max", group), "max");
    victim_unharmed(&victim);
    process_end(victim.pid);
    return !check_failed();
}

static void limit_every_verb(const char *group)
{
    static const long lefts[] = {0, 2, 8, 16};
    const size_t verbs = sizeof limited / sizeof *limited, few = sizeof lefts / sizeof *lefts;
    const size_t runs = long_run ? LONG_RUNS : few;
    unsigned refused = 0;

    REQUIRE(access(format("%s/memory.max", group), W_OK) == 0, "no memory controller");
    for (size_t verb = 0; verb < verbs; verb++)
        for (size_t i = 0; i < runs; i++)
            if (!run_limited(group, limited[verb], lefts[i % few], &refused))
                return;
    REQUIRE(refused > verbs, "only %u runs were refused", refused);
    check_note("%zu runs, %u refused, 0 kills", verbs * runs, refused);
}

static void at_limit(void)
{
    const char *group = new_group("limited");

    if (!group)
        return;
    limit_every_verb(group);
    write_file(format("%s/memory.max", group), "max");
    remove_group(group);
}

static bool is_frozen(const char *group)
{
    return strstr(read_file(format("%s/cgroup.events", group)), "frozen 1") != NULL;
}

static void attach_to_frozen(const char *group)
{
    static const char *const words[] = {"frozen", "thaw", NULL};
    struct start start = {.group = group};
    struct victim victim;

    if (!victim_start(&victim, "nanosleep", "30", &start))
        return;
    REQUIRE(write_file(format("%s/cgroup.freeze", group), "1"), "it cannot be frozen");
    REQUIRE(WAIT_UNTIL(is_frozen(group), FREEZE_SECONDS), "it does not freeze");
    struct result result = TOOL("on", "--call", "--timeout", "5", text_of(victim.pid));
    result_is(&result, 7, words);
    result = TOOL("dump", "--call", "-o", "-", "--timeout", "5", text_of(victim.pid));
    result_is(&result, 7, words);
    REQUIRE(write_file(format("%s/cgroup.freeze", group), "0"), "it cannot be thawed");
    if (check_failed())
        return;
    victim_unharmed(&victim);
    result = TOOL("on", "--call", text_of(victim.pid));
    REQUIRE(result.code == 0, "when it is thawed: %s", result_text(&result));
    victim_unharmed(&victim);
}

static void freezer(void)
{
    const char *group = new_group("frozen");

    if (!group)
        return;
    attach_to_frozen(group);
    write_file(format("%s/cgroup.freeze", group), "0");
    remove_group(group);
}

const struct check cgroup_checks[] = {
    {"cgroup.memory", memory_limit, false},
    {"cgroup.limit", at_limit, false},
    {"cgroup.freeze", freezer, false},
    {NULL, NULL, false},
};
