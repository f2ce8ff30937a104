/*
 * Memory that the kernel refuses by its commit limit (vm.overcommit_memory 2): before 6.12 an
 * mmap(2) with MAP_FIXED that fails so has unmapped the old mapping, and another thread of the
 * target may have mapped something there.
 */
#include "guest.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS = 15, SECONDS = 60, RESERVE_PERCENT = 95 };

/* ready, rounds: tests/victims/forker.c */
static pid_t start_mapper(const volatile uint64_t **report)
{
    const char *path = format("%s/report", make_directory());
    struct start start = {.user = &alice,
                          .variables = (const char *const[]){"LD_PRELOAD=libjemalloc.so.2",
                                                             "MALLOC_CONF=prof:true", NULL}};

    *report = map_numbers(path);
    if (!*report)
        return 0;
    pid_t pid = process_start(&start, (const char *const[]){"/victims/forker", path, "maps", NULL});
    return WAIT_UNTIL((*report)[0] && (*report)[1] > 2, SECONDS) ? pid : 0;
}

static bool goes_on(pid_t pid, const volatile uint64_t *report)
{
    uint64_t goal = report[1] + 2;

    return WAIT_UNTIL(report[1] >= goal || !process_alive(pid), SECONDS) && process_alive(pid);
}

/* Others may not commit the last part of root's limit: it is reserved for administrators. */
static bool limit_others(bool limited)
{
    const char *field = strstr(read_file("/proc/meminfo"), "MemTotal:");
    long kilobytes = field ? atol(field + strlen("MemTotal:")) : 0;
    const char *reserve = text_of(limited ? kilobytes * RESERVE_PERCENT / 100 : 8192);

    return kilobytes && write_file("/proc/sys/vm/overcommit_ratio", "95") &&
           write_file("/proc/sys/vm/admin_reserve_kbytes", reserve) &&
           write_file("/proc/sys/vm/overcommit_memory", limited ? "2" : "0");
}

/* A call for which nothing is mapped succeeds: the other thread may look as if it had the lock. */
static void call_without_commitment(pid_t pid, const volatile uint64_t *report)
{
    unsigned refused = 0;

    for (unsigned i = 0; i < CALLS; i++) {
        struct result result = TOOL("on", "--call", text_of(pid));
        if (result.code != 0 && !result_is(&result, 7, (const char *const[]){"scratch", NULL}))
            return;
        refused += result.code != 0;
        REQUIRE(goes_on(pid, report), "after call %u the target %s", i,
                process_alive(pid) ? "hangs" : "has died");
    }
    REQUIRE(refused, "no mapping was refused in %u calls", (unsigned)CALLS);
}

static void overcommit(void)
{
    const volatile uint64_t *report;
    pid_t pid = start_mapper(&report);

    REQUIRE(pid, "the target does not start");
    if (limit_others(true))
        call_without_commitment(pid, report);
    else
        check_fail("the limit cannot be set");
    limit_others(false);
    if (check_failed())
        return;
    struct result result = TOOL("on", "--call", text_of(pid));
    REQUIRE(result.code == 0, "without the limit: %s", result_text(&result));
    REQUIRE(goes_on(pid, report), "the target does not go on");
}

const struct check memory_checks[] = {
    {"memory.overcommit", overcommit, false},
    {NULL, NULL, false},
};
