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
    {"cgroup.freeze", freezer, false},
    {NULL, NULL, false},
};
