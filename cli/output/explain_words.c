#include "cli/output/explain_words.h"
#include "base/units.h"
#include "cli/faults.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Below this share of what its cgroup uses, the process is not what fills it. */
#define MAIN_SHARE 0.7

enum { SECOND_NS = 1000000000 };

__attribute__((format(printf, 2, 3))) static void append_words(char *out, const char *fmt, ...)
{
    size_t len = strlen(out);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(out + len, EXPLAIN_VERDICT - len, fmt, ap);
    va_end(ap);
}

const char *explain_about(uint64_t ns, char out[32])
{
    static const struct {
        uint64_t seconds;
        const char *unit;
    } scales[] = {{2 * 86400, "days"}, {7200, "h"}, {120, "min"}, {0, "s"}};
    static const uint64_t lengths[] = {86400, 3600, 60, 1};
    uint64_t seconds = ns / SECOND_NS;
    size_t i = 0;

    while (seconds < scales[i].seconds)
        i++;
    snprintf(out, 32, "about %" PRIu64 " %s", (seconds + lengths[i] / 2) / lengths[i],
             scales[i].unit);
    return out;
}

static double percent_of(uint64_t part, uint64_t all)
{
    return all ? 100 * (double)part / (double)all : 0;
}

/* "uses 2.4 GiB of its limit of 4 GiB (60 %)" */
static void write_use(const struct explain *explain, char *out)
{
    const struct limit_use *use = &explain->use;
    char rss[UNITS_TEXT], used[UNITS_TEXT], limit[UNITS_TEXT];

    units_bytes((double)explain->resident.rss, rss);
    units_bytes((double)use->used, used);
    units_bytes((double)use->limit, limit);
    if (!explain->limited)
        append_words(out, " uses %s", rss);
    else if (explain->machine)
        append_words(out, " uses %s of the %s of this machine", rss, limit);
    else if ((double)explain->resident.rss >= MAIN_SHARE * (double)use->used)
        append_words(out, " uses %s of its limit of %s (%.0f %%)", rss, limit,
                     percent_of(use->used, use->limit));
    else
        append_words(out, " uses %s, its cgroup %s of %s (%.0f %%)", rss, used, limit,
                     percent_of(use->used, use->limit));
}

static void write_growing(const struct explain *explain, char *out)
{
    enum heap_kind collector = heap_kinds_collector(explain->heaps);
    char rate[UNITS_TEXT], about[32];
    uint64_t left;

    units_rate(explain->rise.per_second, rate);
    append_words(out, " and grows by %s", rate[0] == '+' ? rate + 1 : rate);
    if (explain_time_left(explain, &left))
        append_words(out,
                     explain->machine ? ": at this rate the machine has memory for %s"
                                      : ": at this rate the limit is reached in %s",
                     explain_about(left, about));
    if (collector != HEAP_KINDS)
        append_words(out, ", unless its garbage collector frees memory");
}

/* "a second", for the usual time of the look. */
static const char *time_words(uint64_t ns, char out[UNITS_TEXT])
{
    if (ns < 3ull * SECOND_NS / 2)
        return strcpy(out, "a second");
    return units_duration(ns, out);
}

static void write_rise(const struct explain *explain, char *out)
{
    double change = (double)explain->rise.change;
    char amount[UNITS_TEXT], time[UNITS_TEXT];

    time_words(explain->rise.ns, time);
    switch (explain->rise.state) {
    case RISE_UNKNOWN:
        append_words(out, "; whether it grows is not known");
        break;
    case RISE_NONE:
        append_words(out, " and did not grow within %s", time);
        if (explain->rss_rise.state == RISE_GROWING)
            append_words(out, "; it touches %s more of shared memory and files",
                         units_rate(explain->rss_rise.per_second, amount) + 1);
        break;
    case RISE_GROWING:
        write_growing(explain, out);
        break;
    case RISE_STEP:
        append_words(out, " and rose by %s within %s, not steadily", units_bytes(change, amount),
                     time);
        break;
    case RISE_FALLING:
        append_words(out, " and shrank by %s within %s", units_bytes(-change, amount), time);
        break;
    }
}

/* The largest part of it that is no use to the program. */
static void write_free(const struct explain *explain, char *out)
{
    const struct explain_facts *facts = &explain->facts;
    double rss = (double)explain->resident.rss;
    char amount[UNITS_TEXT];

    if (explain->step == STEP_PURGE)
        append_words(out, "; %s of it is free memory that jeattach purge returns",
                     units_bytes(facts->free_pages * rss, amount));
    else if (explain->step == STEP_FRAG)
        append_words(out, "; %s of it is free space between allocations",
                     units_bytes(facts->slack * rss, amount));
    else if (explain->resident.swap > explain->resident.rss / 4)
        append_words(out, "; %s more is swapped out",
                     units_bytes((double)explain->resident.swap, amount));
}

static bool is_group_growing(const struct explain *explain)
{
    return explain->limited && !explain->machine && explain->use_rise.state == RISE_GROWING &&
           explain->rise.state != RISE_GROWING;
}

const char *explain_verdict(const struct explain *explain, char out[EXPLAIN_VERDICT])
{
    const struct target *target = &explain->attachment->target;
    char name[64], rate[UNITS_TEXT];

    snprintf(out, EXPLAIN_VERDICT, "%s[%d]", message_clean(target->stat.comm, name, sizeof name),
             (int)target->pid);
    write_use(explain, out);
    if (explain->facts.halted)
        append_words(out, " and is %s",
                     explain->refusal.code == FAULT_FROZEN ? "frozen" : "stopped");
    else
        write_rise(explain, out);
    write_free(explain, out);
    if (is_group_growing(explain))
        append_words(out, "; its cgroup grows by %s",
                     units_rate(explain->use_rise.per_second, rate) + 1);
    return out;
}

/* ---- the next step ---- */

static const struct {
    const char *name, *verb, *options; /* before and after the pid */
    const char *reason;
} steps[STEP_COUNT] = {
    [STEP_PERMIT] = {"permit", NULL, NULL, "without it only the numbers above can be read"},
    [STEP_LEAK] = {"leak", "leak", " -d 60s",
                   "this shows what grows in it, and which calls make it grow"},
    [STEP_PURGE] = {"purge", "purge", "",
                    "jemalloc keeps free pages, and this returns them to the kernel"},
    [STEP_FRAG] = {"frag", "frag", "",
                   "few objects keep many pages; this shows their sizes, or their calls"},
    [STEP_DUMP] = {"dump", "dump", " -f text",
                   "its profile shows which calls allocated what is in use"},
    [STEP_RECORD] = {"record", "record", " -d 60s -f text",
                     "profiling is enabled but not active; this samples for a minute"},
    [STEP_STATS] = {"stats", "stats", "", "this counts anew what is in use and what is free"},
    [STEP_STATS_READ] = {"stats_no_call", "stats --no-call", "",
                         "a call is not possible now; this shows the counts in memory"},
    [STEP_PEEK] = {"peek", "peek", "",
                   "profiling is not possible; this shows what the objects are"},
    [STEP_LOOK] = {"look", "leak", " -d 60s",
                   "a second is short: this watches for a minute, and shows which calls"},
    [STEP_AGAIN] = {"explain", "explain", "", "it is stopped: look again when it runs"},
};

const char *explain_command(const struct explain *explain, const struct subject *subject,
                            char out[EXPLAIN_COMMAND])
{
    const char *verb = steps[explain->step].verb;
    struct fault_words words;

    if (verb) {
        snprintf(out, EXPLAIN_COMMAND, "jeattach %s %d%s", verb,
                 (int)explain->attachment->target.pid, steps[explain->step].options);
        return out;
    }
    message_words(subject, &explain->no_heap, &words);
    snprintf(out, EXPLAIN_COMMAND, "%s", words.fix);
    return out;
}

const char *explain_reason(enum explain_step step)
{
    return steps[step].reason;
}

const char *explain_step_name(enum explain_step step)
{
    return steps[step].name;
}

/* ---- allocators ---- */

const char *heap_kind_name(enum heap_kind kind)
{
    static const char *const names[HEAP_KINDS] = {
        [HEAP_GLIBC] = "glibc malloc",
        [HEAP_MUSL] = "musl malloc",
        [HEAP_TCMALLOC] = "tcmalloc",
        [HEAP_MIMALLOC] = "mimalloc",
        [HEAP_GO] = "Go",
        [HEAP_JVM] = "Java VM",
        [HEAP_V8] = "V8 (JavaScript)",
        [HEAP_DOTNET] = ".NET",
        [HEAP_PYTHON] = "Python",
        [HEAP_RUBY] = "Ruby",
        [HEAP_PHP] = "PHP",
        [HEAP_ERLANG] = "Erlang VM",
    };

    return names[kind];
}

const char *heap_kinds_text(unsigned kinds, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (unsigned kind = HEAP_KINDS; kind-- > 0 && len < size;)
        if (kinds & 1u << kind)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len ? ", " : "",
                                    heap_kind_name((enum heap_kind)kind));
    return out;
}
