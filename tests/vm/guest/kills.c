/*
 * The tool dies at every k-th of its ptrace and write calls (JEATTACH_DIE_AT, JEATTACH_DIE_AFTER):
 * the target completes the call on its own and continues. tests/kill_matrix.py has all of this.
 */
#include "../../victims/report.h"
#include "guest.h"

#include <signal.h>
#include <string.h>

enum { POINTS_MAX = 1500 };

struct series {
    const char *verb, *mode, *option;
    struct victim victim;
    struct snapshot before;
    unsigned stride, deaths;
    uint64_t eintr_allowed;
};

/* Ended by any stop, and rewound with the first registers that the tool sets. */
static bool eintr_may_show(const struct series *series, const struct result *result)
{
    const char *last = NULL, *p = result->err;

    if (strcmp(series->mode, "epoll_wait") != 0)
        return false;
    while ((p = strstr(p, "ptrace INTERRUPT")))
        last = p++;
    return last && !strstr(last, "SETREGSET");
}

static bool aftermath(struct series *series, const char *where)
{
    const volatile struct report *report = series->victim.report;

    if (!victim_goes_on(&series->victim, 2))
        check_fail("%s: the victim %s", where,
                   process_alive(series->victim.pid) ? "hangs" : "died");
    else if (report->errors || report->early || report->eintr > series->eintr_allowed)
        check_fail("%s: %llu wrong, %llu early, %llu EINTR: %s", where,
                   (unsigned long long)report->errors, (unsigned long long)report->early,
                   (unsigned long long)report->eintr, (const char *)(uintptr_t)report->text);
    else
        snapshot_compare(&series->before, series->victim.pid);
    return !check_failed();
}

/* True while the tool dies before its end. */
static bool die_at(struct series *series, const char *variable, unsigned k)
{
    const char *where = format("%s %s %s=%u", series->verb, series->mode, variable, k);
    const char *pid = text_of(series->victim.pid);
    struct start start = {.variables = (const char *const[]){format("%s=%u", variable, k), NULL}};
    struct result result =
        tool_run(&start, (const char *const[]){"jeattach-traced", series->verb, "--call", pid,
                                               series->option, series->option ? "-" : NULL, NULL});

    series->deaths += result.code == -SIGKILL;
    series->eintr_allowed += eintr_may_show(series, &result);
    if (result.code != -SIGKILL && result.code != 0)
        check_fail("%s: %s", where, result_text(&result));
    return aftermath(series, where) && result.code == -SIGKILL;
}

/* Then a new call: one that is stopped by two runs of the tool no longer has its number in the
   registers, and ends with EINTR if the second run dies. */
static bool switch_off(struct series *series)
{
    struct result result = TOOL("off", "--call", text_of(series->victim.pid));

    if (result.code != 0)
        check_fail("the next use fails: %s", result_text(&result));
    else if (!victim_goes_on(&series->victim, 2))
        check_fail("after the next use the victim does not go on");
    return !check_failed();
}

static void all_deaths(struct series *series, const char *variable, unsigned first)
{
    unsigned stride = long_run ? 1 : series->stride;

    for (unsigned k = long_run ? 1 : first; k < POINTS_MAX && die_at(series, variable, k);
         k += stride)
        if (!switch_off(series))
            return;
}

static void run_series(const char *verb, const char *option, const char *mode, unsigned stride)
{
    static struct series series;

    series = (struct series){.verb = verb, .option = option, .mode = mode, .stride = stride};
    if (!victim_start(&series.victim, mode, "25", NULL))
        return;
    /* Things that jemalloc and the tool do only once are done. */
    struct result result =
        TOOL(verb, "--call", text_of(series.victim.pid), option, option ? "-" : NULL);
    REQUIRE(result.code == 0, "%s", result_text(&result));
    if (!switch_off(&series))
        return;
    snapshot_take(&series.before, series.victim.pid, false);
    all_deaths(&series, "JEATTACH_DIE_AT", 2);
    if (!check_failed())
        all_deaths(&series, "JEATTACH_DIE_AFTER", 5);
    REQUIRE(check_failed() || series.deaths >= 6, "only %u deaths", series.deaths);
    if (!check_failed() && switch_off(&series))
        check_note("%u deaths", series.deaths);
}

static void on_asleep(void)
{
    run_series("on", NULL, "nanosleep", 9);
}

static void on_waiting(void)
{
    run_series("on", NULL, "epoll_wait", 9);
}

static void on_running(void)
{
    run_series("on", NULL, "spin", 9);
}

static void stream_asleep(void)
{
    run_series("dump", "-o", "nanosleep", 19);
}

static void stream_running(void)
{
    run_series("dump", "-o", "spin", 19);
}

static void stats_waiting(void)
{
    run_series("stats", NULL, "epoll_wait", 13);
}

const struct check kill_checks[] = {
    {"kill.on.nanosleep", on_asleep, true},
    {"kill.on.epoll_wait", on_waiting, false},
    {"kill.on.spin", on_running, true},
    {"kill.stream.nanosleep", stream_asleep, false},
    {"kill.stream.spin", stream_running, true},
    {"kill.stats.epoll_wait", stats_waiting, true},
    {NULL, NULL, false},
};
