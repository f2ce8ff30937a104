#include "cli/output/explain_words.h"
#include "base/units.h"
#include "cli/faults.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SECOND_NS = 1000000000 };

__attribute__((format(printf, 2, 3))) static void append_words(char *out, const char *fmt, ...)
{
    size_t len = strlen(out);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(out + len, EXPLAIN_VERDICT - len, fmt, ap);
    va_end(ap);
}

/* "about 40 s", "about 23 min", "about 5 h", "about 3 days". Returns out. */
static const char *explain_about(uint64_t ns, char out[32])
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

/* "80 %" */
static const char *share_text(uint64_t part, uint64_t all, char out[16])
{
    const double percent = all ? 100 * (double)part / (double)all : 0;

    snprintf(out, 16, percent < 1 ? "< 1 %%" : "%.0f %%", percent > 100 ? 100 : percent);
    return out;
}

/* The RSS beside a limit only where the limit counts it. */
static void write_use(const struct explain *explain, char *out)
{
    const struct limit_use *use = &explain->use;
    const uint64_t rss = explain->resident.rss;
    char text[UNITS_TEXT], used[UNITS_TEXT], limit[UNITS_TEXT], share[16];

    append_words(out, " uses %s", units_bytes((double)rss, text));
    if (!explain->limited || explain->machine)
        return;
    units_bytes((double)use->used, used);
    units_bytes((double)use->limit, limit);
    if (explain->counts_rss)
        append_words(out, " of its limit of %s (%s)", limit, share_text(rss, use->limit, share));
    else
        append_words(out, ", its cgroup %s of %s (%s)", used, limit,
                     share_text(use->used, use->limit, share));
}

static void write_rate(const struct explain *explain, char *out)
{
    const enum heap_kind collector = heap_kinds_collector(explain->heaps);
    const struct parts *parts = &explain->watch.parts;
    /* A garbage collector does not free what others allocate. */
    const bool of_objects = explain->look_ns && parts->count && parts->list[0].kind == PART_OBJECTS;
    char rate[UNITS_TEXT], about[32];
    uint64_t left;

    units_rate(explain->rise.per_second, rate);
    append_words(out, "grows by %s", rate[0] == '+' ? rate + 1 : rate);
    if (explain_time_left(explain, &left))
        append_words(out,
                     explain->machine ? ": at this rate the machine has memory for %s"
                                      : ": at this rate the limit is reached in %s",
                     explain_about(left, about));
    if (collector != HEAP_KINDS && !of_objects)
        append_words(out, ", unless its garbage collector frees memory");
}

/* A change that is none of the facts. */
static void write_memory_change(const struct explain *explain, char *out)
{
    double change = (double)explain->rise.change;
    char amount[UNITS_TEXT], time[UNITS_TEXT];

    if (explain->rise.ns < 3ull * SECOND_NS / 2)
        strcpy(time, "a second"); /* the usual time of the look */
    else
        units_duration(explain->rise.ns, time);
    switch (explain->rise.state) {
    case RISE_UNKNOWN:
        append_words(out, "; whether it grows is not known");
        break;
    case RISE_NONE:
        append_words(out, "; did not grow within %s", time);
        if (explain->rss_rise.state == RISE_GROWING && !explain->look_ns)
            append_words(out, "; it touches %s more of shared memory and files",
                         units_rate(explain->rss_rise.per_second, amount) + 1);
        break;
    case RISE_GROWING:
        break;
    case RISE_STEP:
        append_words(out, "; rose by %s within %s, not steadily", units_bytes(change, amount),
                     time);
        break;
    case RISE_FALLING:
        append_words(out, "; shrank by %s within %s", units_bytes(-change, amount), time);
        break;
    }
}

/* ---- the facts ---- */

/* "230 MiB (80 %) of it is free space in slabs, which no purge returns" */
static void write_part_fact(const struct explain *explain, enum explain_headline fact, char *out)
{
    static const char *const words[HEADLINES] = {
        [HEADLINE_SLABS] = "free space between objects, which no purge returns",
        [HEADLINE_PADDING] = "free space behind large objects",
        [HEADLINE_RETAINED] = "free memory that jemalloc counts as returned: no purge returns it",
        [HEADLINE_OTHER] = "of another jemalloc",
        [HEADLINE_PAGES] = "free pages, which jeattach purge returns",
        [HEADLINE_PINNED] = "free pages that extent hooks keep",
        [HEADLINE_SAMPLING] = "the cost of sampling",
        [HEADLINE_OWN] = "jemalloc's own data",
    };
    static const char *const core_words[HEADLINES] = {
        [HEADLINE_SLABS] = "free space between objects",
        [HEADLINE_PADDING] = "free space behind large objects",
        [HEADLINE_PAGES] = "free pages",
        [HEADLINE_OTHER] = "of another jemalloc",
        [HEADLINE_PINNED] = "free pages that extent hooks kept",
        [HEADLINE_SAMPLING] = "the cost of sampling",
        [HEADLINE_OWN] = "jemalloc's own data",
    };
    static const char *const outside_words[OUTSIDE_KINDS] = {
        [OUTSIDE_ANONYMOUS] = "memory without a file (heaps, mappings)",
        [OUTSIDE_BRK] = "the heap of brk(2)",
        [OUTSIDE_STACKS] = "thread stacks",
        [OUTSIDE_FILES] = "mapped files and code",
        [OUTSIDE_VARIABLES] = "changed pages of mapped files",
        [OUTSIDE_SHARED] = "shared memory",
        [OUTSIDE_DEVICES] = "mapped buffers of sockets and devices",
    };
    const struct explain_class *largest = &explain->live.largest[0];
    const uint64_t whole = explain_whole(explain), all = explain_amount(explain, fact);
    const bool alone = fact == HEADLINE_OUTSIDE && explain->no_heap.code != FAULT_NONE;
    const uint64_t bytes = alone ? explain->outside_bytes : all;
    char amount[UNITS_TEXT], size[UNITS_TEXT], share[16];

    units_bytes((double)bytes, amount);
    if (fact == HEADLINE_SWAPPED) {
        append_words(out, "%s more is swapped out", amount);
        return;
    }
    append_words(out, "%s (%s) of it is ", amount, share_text(bytes, whole, share));
    if (fact == HEADLINE_IN_USE) {
        append_words(out, "objects in use");
        if (explain->no_live.code == FAULT_NONE && largest->bytes)
            append_words(out, ", %s of that in objects of %s",
                         share_text(largest->bytes, explain->live.in_use, share),
                         units_bytes((double)largest->size, size));
    } else if (fact == HEADLINE_OUTSIDE) {
        if (!alone)
            append_words(out, 2 * explain->outside_bytes >= all
                                  ? "outside jemalloc, most of it "
                                  : "outside jemalloc, the largest part ");
        append_words(out, "%s", outside_words[explain->outside]);
    } else {
        append_words(out, "%s", explain->core ? core_words[fact] : words[fact]);
    }
}

/* What comes before the size: what goes on at this moment. */
static void write_first(const struct explain *explain, char *out)
{
    const enum explain_headline first = explain->order[0];
    const struct limit_use *use = &explain->use;
    char used[UNITS_TEXT], limit[UNITS_TEXT], share[16];
    uint64_t left;

    if (first == HEADLINE_LIMIT && !explain_time_left(explain, &left)) {
        append_words(out, " is near its limit: its cgroup uses %s of %s (%s)%s; it",
                     units_bytes((double)use->used, used), units_bytes((double)use->limit, limit),
                     share_text(use->used, use->limit, share),
                     explain->rise.state == RISE_GROWING ? ", and it grows" : "");
    } else if (first == HEADLINE_LIMIT || first == HEADLINE_GROWTH) {
        append_words(out, " ");
        write_rate(explain, out);
        append_words(out, "; it");
    }
}

enum { FACTS_SHOWN = 2 };

static void write_facts(const struct explain *explain, char *out)
{
    size_t shown = 0;

    for (size_t i = 0; i < explain->order_count; i++) {
        const enum explain_headline fact = explain->order[i];
        if (fact == HEADLINE_LIMIT || (fact == HEADLINE_GROWTH && i == 0))
            continue;
        if (fact != HEADLINE_GROWTH && shown == FACTS_SHOWN)
            continue;
        append_words(out, shown ? "; " : ": ");
        if (fact == HEADLINE_GROWTH)
            write_rate(explain, out);
        else
            write_part_fact(explain, fact, out);
        shown++;
    }
}

const char *explain_verdict(const struct explain *explain, char out[EXPLAIN_VERDICT])
{
    const struct target *target = &explain->attachment->target;
    char name[64], rate[UNITS_TEXT];

    snprintf(out, EXPLAIN_VERDICT, "%s[%d]", message_clean(target->stat.comm, name, sizeof name),
             (int)target->pid);
    if (explain->core) {
        if (explain_counted(explain))
            append_words(out, " had %s in jemalloc",
                         units_bytes((double)explain_whole(explain), rate));
        else
            append_words(
                out, " had %s mapped",
                units_bytes((double)explain->mapped.anonymous + (double)explain->mapped.files,
                            rate));
        write_facts(explain, out);
        return out;
    }
    if (explain->order_count)
        write_first(explain, out);
    write_use(explain, out);
    if (explain->facts.halted)
        append_words(out, " and is %s",
                     explain->refusal.code == FAULT_FROZEN ? "frozen" : "stopped");
    write_facts(explain, out);
    if (!explain->facts.halted)
        write_memory_change(explain, out);
    if (explain->limited && !explain->machine && explain->use_rise.state == RISE_GROWING &&
        explain->rise.state != RISE_GROWING)
        append_words(out, "; its cgroup grows by %s",
                     units_rate(explain->use_rise.per_second, rate) + 1);
    return out;
}

const char *explain_headline_name(const struct explain *explain)
{
    static const char *const names[HEADLINES] = {
        [HEADLINE_LIMIT] = "limit",       [HEADLINE_GROWTH] = "growth",
        [HEADLINE_SLABS] = "slabs",       [HEADLINE_PAGES] = "free_pages",
        [HEADLINE_PADDING] = "padding",   [HEADLINE_RETAINED] = "retained",
        [HEADLINE_OTHER] = "other",       [HEADLINE_PINNED] = "pinned",
        [HEADLINE_IN_USE] = "in_use",     [HEADLINE_OWN] = "own_data",
        [HEADLINE_SAMPLING] = "sampling", [HEADLINE_SWAPPED] = "swapped",
        [HEADLINE_OUTSIDE] = "outside",
    };

    return explain->order_count ? names[explain->order[0]] : NULL;
}

/* Of free pages the next command is all that is to be said. */
void explain_advice(const struct explain *explain, struct advice *advice)
{
    const struct attachment *attachment = explain->attachment;
    struct advice_facts facts = {.pid = (int)attachment->target.pid,
                                 .program = attachment->target.stat.comm,
                                 .in_program = attachment->instance.in_program,
                                 .has_stacks = true, /* the next command shows them */
                                 .huge = explain->account.process.huge,
                                 .retained = explain_amount(explain, HEADLINE_RETAINED),
                                 .slabs = explain_amount(explain, HEADLINE_SLABS)};

    for (size_t i = explain->order_count; i-- > 0;)
        if (explain->order[i] == HEADLINE_SLABS && explain->facts.slack > 0)
            facts.most = ADVICE_SLABS;
        else if (explain->order[i] == HEADLINE_PINNED)
            facts.most = ADVICE_PINNED;
        else if (explain->order[i] == HEADLINE_RETAINED)
            facts.most = ADVICE_RETAINED;
    advice_make(advice, &facts);
}

/* ---- the next step ---- */

static const struct {
    const char *name, *verb, *options; /* before and after the pid */
    const char *reason;
} steps[STEP_COUNT] = {
    [STEP_PERMIT] = {"permit", NULL, NULL, "without it only the numbers above can be read"},
    [STEP_LEAK] = {"leak", "leak", " -d 60s",
                   "this shows what grows in it, in its heap or outside, and which calls do it"},
    [STEP_PURGE] = {"purge", "purge", "",
                    "jemalloc keeps free pages, and this returns them to the kernel"},
    [STEP_FRAG] = {"frag", "frag", "",
                   "this shows what keeps the free memory in place, and what helps"},
    [STEP_DUMP] = {"dump", "dump", " -f text",
                   "its profile shows which calls allocated what is in use"},
    [STEP_RECORD] = {"record", "record", " -d 60s -f text",
                     "profiling is enabled but not active; this samples for a minute"},
    [STEP_STATS] = {"stats", "stats", "", "this counts anew what is in use and what is free"},
    [STEP_STATS_READ] = {"stats_no_call", "stats --no-call", "",
                         "a call is not possible now; this shows the counts in memory"},
    [STEP_PEEK] = {"peek", "peek", "",
                   "profiling is not possible; this shows what the objects are"},
    [STEP_OUTSIDE] = {"outside", "leak", " -d 60s",
                      "jemalloc has little of it: this shows which kind of memory grows, by calls"},
    [STEP_CORE] = {"core", "status", "",
                   "the core file has no objects that can be read; this shows why"},
    [STEP_LOOK] = {"look", "leak", " -d 60s",
                   "a second is short: this watches for a minute, and shows which calls"},
    [STEP_AGAIN] = {"explain", "explain", "", "it is stopped: look again when it runs"},
};

/* After a longer look, another one of that length shows nothing new. */
static const char *step_options(const struct explain *explain)
{
    if (explain->look_ns && (explain->step == STEP_LOOK || explain->step == STEP_OUTSIDE))
        return " -d 10m";
    return steps[explain->step].options;
}

const char *explain_command(const struct explain *explain, const struct subject *subject,
                            char out[EXPLAIN_COMMAND])
{
    const char *verb = steps[explain->step].verb;
    struct fault_words words;

    if (!verb) {
        message_words(subject, &explain->no_heap, &words);
        snprintf(out, EXPLAIN_COMMAND, "%s", words.fix);
    } else if (explain->core) {
        snprintf(out, EXPLAIN_COMMAND, "jeattach %s --core %s%s", verb, subject->name,
                 step_options(explain));
    } else {
        snprintf(out, EXPLAIN_COMMAND, "jeattach %s %d%s", verb,
                 (int)explain->attachment->target.pid, step_options(explain));
    }
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
