#include "cli/output/explain_words.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/faults.h"
#include "cli/output/grow_view.h"
#include "cli/output/usage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SECOND_NS = 1000000000 };

#define append_words(out, ...) text_append(out, EXPLAIN_VERDICT, __VA_ARGS__)

/* "40 s", "23 min", "5 h", "3 days". */
static void write_time_exact(uint64_t seconds, char *out)
{
    static const struct {
        uint64_t seconds;
        const char *unit;
    } scales[] = {{2 * 86400, "days"}, {7200, "h"}, {120, "min"}, {0, "s"}};
    static const uint64_t lengths[] = {86400, 3600, 60, 1};
    size_t i = 0;

    while (seconds < scales[i].seconds)
        i++;
    append_words(out, "%" PRIu64 " %s", (seconds + lengths[i] / 2) / lengths[i], scales[i].unit);
}

const char *time_rough(uint64_t seconds, char out[ROUGH_TIME])
{
    static const struct {
        uint64_t seconds;
        const char *text;
    } times[] = {{1, "1 s"},           {2, "2 s"},          {3, "3 s"},         {5, "5 s"},
                 {7, "7 s"},           {10, "10 s"},        {15, "15 s"},       {20, "20 s"},
                 {30, "30 s"},         {40, "40 s"},        {60, "1 min"},      {120, "2 min"},
                 {180, "3 min"},       {300, "5 min"},      {420, "7 min"},     {600, "10 min"},
                 {900, "15 min"},      {1200, "20 min"},    {1800, "30 min"},   {2400, "40 min"},
                 {3600, "1 h"},        {7200, "2 h"},       {10800, "3 h"},     {18000, "5 h"},
                 {25200, "7 h"},       {36000, "10 h"},     {54000, "15 h"},    {86400, "1 day"},
                 {172800, "2 days"},   {259200, "3 days"},  {432000, "5 days"}, {864000, "10 days"},
                 {2592000, "a month"}, {31536000, "a year"}};
    size_t i = 0;

    /* By their ratio. */
    while (i + 1 < ARRAY_LEN(times) && seconds * seconds > times[i].seconds * times[i + 1].seconds)
        i++;
    snprintf(out, ROUGH_TIME, "%s", times[i].text);
    return out;
}

/* A rate that was seen for a moment, or that changes, says little of a time that is much longer. */
static void write_time_left(const struct explain *explain, uint64_t ns, char *out)
{
    char time[ROUGH_TIME];

    append_words(out, "about ");
    if (explain->rise.uneven || ns / EXPLAIN_GROWTH_TIMES > explain->rise.ns)
        append_words(out, "%s", time_rough(ns / SECOND_NS, time));
    else
        write_time_exact(ns / SECOND_NS, out);
}

/* "80 %" */
static const char *share_text(uint64_t part, uint64_t all, char out[16])
{
    const double percent = all ? 100 * (double)part / (double)all : 0;

    snprintf(out, 16, percent < 1 ? "< 1 %%" : "%.0f %%", percent > 100 ? 100 : percent);
    return out;
}

const struct group_label group_labels[GROUP_KINDS] = {
    [GROUP_PROCESSES] = {"processes", "other processes"},
    [GROUP_SHARED] = {"shared", "tmpfs and shared memory"},
    [GROUP_FILES] = {"files", "page cache"},
    [GROUP_SOCKETS] = {"sockets", "sockets"},
    [GROUP_HUGE] = {"huge", "huge pages"},
    [GROUP_SLAB] = {"slab", "slab of the kernel"},
    [GROUP_TABLES] = {"page_tables", "page tables"},
    [GROUP_KERNEL] = {"kernel", "kernel memory"},
};

const struct kind_label kind_labels[OUTSIDE_KINDS] = {
    [OUTSIDE_ANONYMOUS] = {"anonymous", "anonymous", "heaps, memory without a file",
                           "memory without a file (heaps, mappings)"},
    [OUTSIDE_BRK] = {"[heap]", "brk", "the C library's heap", "the C library's heap"},
    [OUTSIDE_STACKS] = {"stacks", "stacks", "stack of the first thread", "thread stacks"},
    [OUTSIDE_VARIABLES] = {"variables", "variables", "changed pages of mapped files",
                           "changed pages of mapped files"},
    [OUTSIDE_FILES] = {"files", "files", "code and mapped files", "mapped files and code"},
    [OUTSIDE_SHARED] = {"shared", "shared", "shared memory", "shared memory"},
    [OUTSIDE_DEVICES] = {"devices", "devices", "mapped buffers of sockets and devices",
                         "mapped buffers of sockets and devices"},
};

/* ", most of that other processes" */
static void write_group_most(const struct explain *explain, char *out)
{
    for (enum group_kind kind = 0; kind < GROUP_KINDS; kind++)
        if (explain->group.known && 2 * explain->group.kinds[kind] > explain->use.used)
            append_words(out, ", most of that %s", group_labels[kind].words);
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
    write_group_most(explain, out);
}

/* What grows up to its own limit, and what it does there. */
static const struct {
    const char *up_to, *then;
} own_limits[OWN_LIMITS] = {
    [OWN_LIMIT_ITEMS] = {"its items grow up to", "evicts items"},
    [OWN_LIMIT_KEYS] = {"its data grow up to", "evicts keys or refuses writes"},
    [OWN_LIMIT_STORAGE] = {"its stored objects grow up to", NULL},
    [OWN_LIMIT_JAVA] = {"the Java heap grows up to", NULL},
    [OWN_LIMIT_JAVASCRIPT] = {"the JavaScript heap grows up to", NULL},
};

const char *own_limit_text(const struct own_limit *limit, const char *comm,
                           char out[OWN_LIMIT_TEXT])
{
    const char *up_to = own_limits[limit->of].up_to;
    char size[UNITS_TEXT];

    if (limit->of == OWN_LIMIT_NONE)
        return NULL;
    if (!limit->bytes)
        snprintf(out, OWN_LIMIT_TEXT, "%.*s-cli config get maxmemory shows it; %s that",
                 (int)strcspn(comm, "-"), comm, up_to);
    else
        snprintf(out, OWN_LIMIT_TEXT, "%s %s%s%s%s: %s that", limit->option,
                 units_bytes((double)limit->bytes, size), limit->variable ? " in " : "",
                 limit->variable ? limit->variable : "", limit->is_default ? ", the default" : "",
                 up_to);
    return out;
}

static void write_rate(const struct explain *explain, char *out)
{
    const enum heap_kind collector = heap_kinds_collector(explain->heaps);
    const struct parts *parts = &explain->watch.parts;
    /* A garbage collector does not free what others allocate. */
    const bool of_objects = explain->look_ns && parts->count && parts->list[0].kind == PART_OBJECTS;
    const double group = explain_group_rate(explain);
    char rate[UNITS_TEXT];
    uint64_t left;

    units_rate(explain->rise.per_second, rate);
    append_words(out, "grows by %s", rate[0] == '+' ? rate + 1 : rate);
    if (group > 0)
        append_words(out, ", its cgroup by %s", units_rate(group, rate) + 1);
    if (explain_time_left(explain, &left)) {
        append_words(out, explain->machine ? ": at this rate the machine has memory for "
                                           : ": at this rate the limit is reached in ");
        write_time_left(explain, left, out);
    } else if (explain_own_time_left(explain, &left)) {
        append_words(out, ": at this rate it reaches its own %s %s in ", explain->own_limit.option,
                     units_bytes((double)explain->own_limit.bytes, rate));
        write_time_left(explain, left, out);
        append_words(out, ", and then %s", own_limits[explain->own_limit.of].then);
    }
    if (explain->own_limit.bytes && !own_limit_is_of_memory(&explain->own_limit) && !of_objects)
        append_words(out, ", but %s its own %s %s", own_limits[explain->own_limit.of].up_to,
                     explain->own_limit.option,
                     units_bytes((double)explain->own_limit.bytes, rate));
    else if (collector != HEAP_KINDS && !of_objects)
        append_words(out, ", unless its garbage collector frees memory");
}

/* A change that is none of the facts. */
static void write_memory_change(const struct explain *explain, char *out)
{
    const struct rise *rise = &explain->rise;
    const double change = (double)rise->change;
    const double touched = (double)(explain->rss_rise.change - rise->change);
    char amount[UNITS_TEXT], time[UNITS_TEXT];

    if (rise->ns < 3ull * SECOND_NS / 2)
        strcpy(time, "a second"); /* the usual time of the look */
    else
        units_duration(rise->ns, time);
    units_bytes(change < 0 ? -change : change, amount);
    switch (rise->state) {
    case RISE_UNKNOWN:
        append_words(out, "; whether it grows is not known");
        break;
    case RISE_NONE:
        if (rise->change)
            append_words(out, "; %s within %s: too little to judge", units_change(change, amount),
                         time);
        else
            append_words(out, "; did not grow within %s", time);
        break;
    case RISE_GROWING:
        return;
    case RISE_STEP:
        append_words(out, "; rose by %s within %s, not steadily", amount, time);
        break;
    case RISE_SWINGING:
        append_words(out, "; %s by %s within %s, going up and down", change > 0 ? "rose" : "shrank",
                     amount, time);
        break;
    case RISE_FALLING:
        append_words(out, "; shrank by %s within %s", amount, time);
        break;
    }
    if (explain->objects_grow)
        append_words(out, ", though its objects grow");
    if (explain->rss_rise.state == RISE_GROWING && touched >= (double)RISE_LEAST)
        append_words(out, "; it touched %s more of shared memory and files",
                     units_bytes(touched, amount));
}

/* ---- what has grown, of a longer look ---- */

enum { GROWTH_PARTS = 3 };

static const double NOTABLE_PART = 0.02; /* of the first one */
static const double NOTABLE_REST = 0.05; /* of all */

enum { GROWN_SIZES = 3 };

/* "in objects of 1 KiB, 2 KiB and other sizes": those that have grown most. */
static void write_grown_sizes(const struct explain *explain, char *out)
{
    const struct classes *classes = explain->watch.leak.looks.classes;
    const struct verdict_class *grown = explain->watch.leak.verdict.classes;
    unsigned largest[GROWN_SIZES];
    char size[UNITS_TEXT];
    size_t count = 0;

    for (unsigned i = 0; i < classes->count; i++) {
        size_t at = count;
        if (!(grown[i].growth > 0))
            continue;
        for (; at > 0 && grown[largest[at - 1]].growth < grown[i].growth; at--)
            if (at < GROWN_SIZES)
                largest[at] = largest[at - 1];
        if (at < GROWN_SIZES)
            largest[at] = i;
        count += count < GROWN_SIZES;
    }
    for (size_t i = 0; i < count; i++)
        append_words(out, "%s%s", i ? ", " : " in objects of ",
                     units_bytes((double)classes->list[largest[i]].size, size));
    append_words(out, " and other sizes");
}

/* "in objects of 512 B" */
static void write_grown_name(const struct explain *explain, const struct part *part, char *out)
{
    char size[UNITS_TEXT];

    if (part->kind == PART_OBJECTS && part->size)
        append_words(out, " in objects of %s", units_bytes((double)part->size, size));
    else if (part->kind == PART_OBJECTS)
        write_grown_sizes(explain, out);
    else if (part->memory == GROW_JEMALLOC && explain->watch.leak.judged)
        append_words(out, " in free space of jemalloc's heap");
    else
        append_words(out, " in %s", grow_kind_words(part->memory));
}

static bool is_own_part(const struct part *part)
{
    return part->kind == PART_OBJECTS || grow_kind_is_private(part->memory);
}

/* What its parts have grown by beyond its memory; 0: they explain it. */
static double growth_beyond(const struct explain *explain)
{
    const struct parts *parts = &explain->watch.parts;
    double beyond = -(double)explain->rise.change;

    for (size_t i = 0; i < parts->count; i++)
        if (is_own_part(&parts->list[i]))
            beyond += parts->list[i].bytes;
    return beyond < (double)RISE_LEAST ? 0 : beyond;
}

/* "+24.1 MiB (98 %) in objects of 512 B": of the growth of its memory. */
static void write_grown_part(const struct explain *explain, const struct part *part, char *out)
{
    const double all = (double)explain->rise.change;
    char text[UNITS_TEXT];

    append_words(out, "%s", units_change(part->bytes, text));
    if (is_own_part(part) && all >= (double)RISE_LEAST && growth_beyond(explain) == 0)
        append_words(out, " (%.0f %%)", part->bytes < all ? 100 * part->bytes / all : 100);
    if (part->kind == PART_OBJECTS && part->size && part->state == PART_UNSTEADY)
        append_words(out, ", most of it");
    write_grown_name(explain, part, out);
    if (explain->rise.state != RISE_GROWING && part->state == PART_ONCE)
        append_words(out, ", once");
    else if (explain->rise.state != RISE_GROWING && part->state == PART_UNSTEADY)
        append_words(out, ", not steadily");
}

/*
 * Objects beyond what the memory has grown by are where memory was free, or touch none. Of pages
 * others were returned.
 */
static void write_reuse(const struct explain *explain, char *out)
{
    const double beyond = growth_beyond(explain);
    const struct parts *parts = &explain->watch.parts;
    bool objects = false;
    char text[UNITS_TEXT];

    for (size_t i = 0; i < parts->count; i++)
        objects |= parts->list[i].kind == PART_OBJECTS;
    if (beyond > 0 && explain->rise.change >= RISE_LEAST)
        append_words(out,
                     objects ? "; %s of that in memory that was free, or is not touched yet"
                             : "; %s was returned elsewhere",
                     units_bytes(beyond, text));
    else if (beyond > 0)
        append_words(out, "; %s: the memory does not grow",
                     objects ? "they use what was free" : "as much was returned elsewhere");
}

/* No part has grown. */
static void write_no_part(const struct explain *explain, const char *time, char *out)
{
    const struct verdict *verdict = &explain->watch.leak.verdict;
    char text[UNITS_TEXT];

    if (explain->rise.change >= RISE_LEAST) {
        append_words(out, "%s in %s", units_change((double)explain->rise.change, text),
                     explain->with_shared ? "shared memory" : "several kinds of memory");
        return;
    }
    if (explain->watch.leak.judged && (int64_t)verdict->growth == 0) {
        append_words(out, "none in %s: objects unchanged (exact)", time);
        return;
    }
    const char *none = explain->rise.change ? "nothing certain" : "none";
    if (!explain->watch.leak.judged) {
        append_words(out, "%s in %s", none, time);
        return;
    }
    units_change(verdict->growth, text);
    if (verdict->kind == VERDICT_TOO_SHORT)
        append_words(out, "objects %s in %s (exact): too short to judge; try -d 10s", text, time);
    else if (verdict->kind == VERDICT_UNSTEADY)
        append_words(out, "objects %s in %s (exact), but no size grows steadily", text, time);
    else if (verdict->kind == VERDICT_UNSURE)
        append_words(out, "objects %s in %s (exact): too unsteady to judge; try leak", text, time);
    else
        append_words(out, "%s in %s: objects %s (exact)", none, time,
                     verdict->growth == 0 ? "unchanged" : text);
}

const char *explain_growth(const struct explain *explain, char out[EXPLAIN_VERDICT])
{
    const struct parts *parts = &explain->watch.parts;
    char time[UNITS_TEXT], text[UNITS_TEXT];

    *out = '\0';
    if (!explain->look_ns)
        return out;
    units_duration((uint64_t)(leak_seconds(&explain->watch.leak) * SECOND_NS), time);
    if (!parts->count) {
        write_no_part(explain, time, out);
        return out;
    }
    double rest = (double)explain->rise.change;
    for (size_t i = 0; i < parts->count && i < GROWTH_PARTS; i++) {
        if (parts->list[i].bytes < NOTABLE_PART * parts->list[0].bytes)
            continue;
        append_words(out, i ? ", " : "");
        write_grown_part(explain, &parts->list[i], out);
        rest -= is_own_part(&parts->list[i]) ? parts->list[i].bytes : 0;
    }
    if (rest >= (double)RISE_LEAST && rest >= NOTABLE_REST * (double)explain->rise.change)
        append_words(out, ", +%s (%.0f %%) elsewhere", units_bytes(rest, text),
                     100 * rest / (double)explain->rise.change);
    append_words(out, " in %s (exact)", time);
    write_reuse(explain, out);
    return out;
}

/* ---- the facts ---- */

static const double IN_MEMORY = 0.9;

/* "230 MiB (80 %) of it is free space in slabs, which no purge returns" */
static void write_part_fact(const struct explain *explain, enum explain_headline fact, char *out)
{
    const struct explain_class *largest = &explain->live.largest[0];
    const uint64_t whole = explain_whole(explain), all = explain_amount(explain, fact);
    const bool alone = fact == HEADLINE_OUTSIDE && explain->no_heap.code != FAULT_NONE;
    const uint64_t bytes = alone ? explain->outside_bytes : all;
    char amount[UNITS_TEXT], size[UNITS_TEXT], share[16], module[ACCOUNT_NAME];

    units_bytes((double)bytes, amount);
    if (fact == HEADLINE_SWAPPED || fact == HEADLINE_HUGE) {
        append_words(out,
                     fact == HEADLINE_HUGE ? "%s more is in huge pages (hugetlbfs)"
                                           : "%s more is swapped out",
                     amount);
        return;
    }
    append_words(out, "%s (%s) of it is ", amount, share_text(bytes, whole, share));
    if (fact == HEADLINE_IN_USE) {
        append_words(out, "objects in use");
        /* The sizes are of all objects: most of them have to be in memory. */
        if (explain->no_live.code == FAULT_NONE && largest->bytes &&
            (double)all >= IN_MEMORY * (double)explain->live.in_use)
            append_words(out, ", %s of that in objects of %s",
                         share_text(largest->bytes, explain->live.in_use, share),
                         units_bytes((double)largest->size, size));
    } else if (fact == HEADLINE_OUTSIDE) {
        if (!alone)
            append_words(out, 2 * explain->outside_bytes >= all
                                  ? "outside jemalloc, most of it "
                                  : "outside jemalloc, the largest part ");
        append_words(out, "%s", kind_labels[explain->outside].words);
    } else {
        const struct usage_part *part = &usage_parts[explain_part(fact)];
        append_words(out, "%s%s", part->words, explain->core ? "" : part->remark);
        if (fact == HEADLINE_OTHER)
            append_words(out, ", in %s (--instance %zu)",
                         message_clean(explain->account.module, module, sizeof module),
                         explain->account.largest);
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
    char name[PROCESS_TEXT], rate[UNITS_TEXT];

    strcpy(out, message_process(target->stat.comm, (int)target->pid, name));
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
        append_words(out, "; its cgroup grows by %s%s",
                     units_rate(explain->use_rise.per_second, rate) + 1,
                     explain_group_caches(explain) ? ", most of that page cache" : "");
    return out;
}

const char *explain_headline_name(const struct explain *explain)
{
    static const char *const names[HEADLINES] = {[HEADLINE_LIMIT] = "limit",
                                                 [HEADLINE_GROWTH] = "growth",
                                                 [HEADLINE_SWAPPED] = "swapped",
                                                 [HEADLINE_HUGE] = "huge_pages"};

    if (!explain->order_count)
        return NULL;
    const enum account_part part = explain_part(explain->order[0]);
    return part == ACCOUNT_PARTS ? names[explain->order[0]] : usage_parts[part].key;
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
                     "profiling is enabled, and has no samples yet; this samples for a minute"},
    [STEP_STATS] = {"stats", "stats", "",
                    "memory does not show what is free; jemalloc itself counts it, in a call"},
    [STEP_PEEK] = {"peek", "peek", "", "this shows what the objects in use are"},
    [STEP_OUTSIDE] = {"outside", "leak", NULL,
                      "most of it is outside jemalloc: this shows which kind grows, by which "
                      "calls"},
    [STEP_CORE] = {"core", "status", "",
                   "the core file has no objects that can be read; this shows why"},
    [STEP_LOOK] = {"look", "leak", NULL, NULL},
    [STEP_AGAIN] = {"explain", "explain", "", "it is stopped: look again when it runs"},
};

/* After a longer look, another one of that length shows nothing new. */
static bool was_long(const struct explain *explain)
{
    return explain->look_ns >= 60ull * SECOND_NS;
}

static const char *step_options(const struct explain *explain)
{
    const char *options = steps[explain->step].options;

    if (options)
        return options;
    return was_long(explain) ? " -d 10m" : " -d 60s";
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

const char *explain_reason(const struct explain *explain, char out[EXPLAIN_COMMAND])
{
    char time[UNITS_TEXT] = "a second";

    if (steps[explain->step].reason)
        return steps[explain->step].reason;
    if (explain->look_ns)
        units_duration((uint64_t)(leak_seconds(&explain->watch.leak) * SECOND_NS), time);
    snprintf(out, EXPLAIN_COMMAND, "%s is short: this watches for %s, and shows which calls", time,
             was_long(explain) ? "10 minutes" : "a minute");
    return out;
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
    out[0] = '\0';
    for (unsigned kind = HEAP_KINDS; kind-- > 0;)
        if (kinds & 1u << kind)
            text_append(out, size, "%s%s", *out ? ", " : "", heap_kind_name((enum heap_kind)kind));
    return out;
}
