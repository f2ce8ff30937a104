#include "cli/output/advice.h"
#include "base/text.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/output/wrap.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Below these parts of the free space in slabs a cause is not worth a line. */
enum { SPREAD_PERCENT = 50 };
/* dirty_decay_ms: by default, and from which value on pages are returned late. */
enum { DECAY_MS = 10000, DECAY_LATE_MS = 2000 };

/* Of retained pages in memory: huge pages of as much may hold them. */
enum { RETAINED_PERCENT = 50 };

/* Servers that can move their objects together while they run. */
static const char *const defragmenting[] = {"redis-server", "valkey-server", "keydb-server"};

__attribute__((format(printf, 2, 3))) static void add_line(struct advice *advice,
                                                           const char *format, ...)
{
    va_list list;

    if (advice->count == ADVICE_LINES)
        return;
    va_start(list, format);
    vsnprintf(advice->lines[advice->count++], ADVICE_SIZE, format, list);
    va_end(list);
}

__attribute__((format(printf, 4, 5))) static void set_next(struct advice *advice, const char *verb,
                                                           const struct advice_facts *facts,
                                                           const char *reason, ...)
{
    char pid[16] = "PID";
    va_list list;

    if (facts->pid)
        snprintf(pid, sizeof pid, "%d", facts->pid);
    snprintf(advice->command, sizeof advice->command, "jeattach %s %s", verb, pid);
    va_start(list, reason);
    vsnprintf(advice->reason, sizeof advice->reason, reason, list);
    va_end(list);
}

static bool is_part(uint64_t bytes, uint64_t whole, unsigned percent)
{
    return whole && (double)bytes * 100 >= (double)whole * percent;
}

/* The variable that this jemalloc reads. */
static const char *variable_of(const struct advice_facts *facts)
{
    return facts->setup && *facts->setup->conf.variable.name ? facts->setup->conf.variable.name
                                                             : "MALLOC_CONF";
}

static bool is_started_with(const struct advice_facts *facts, const char *name, const char *value)
{
    size_t len;
    const char *now = facts->setup ? conf_started(&facts->setup->conf, name, &len) : NULL;

    return now && conf_is_word(now, len, value);
}

/* False only if it is known that the version is an older one. */
static bool may_be_since(const struct advice_facts *facts, unsigned number)
{
    const struct version *version = facts->setup ? &facts->setup->prof.build.version : NULL;

    return !version || !version->number || version->number >= number;
}

static void advise_pages(struct advice *advice, const struct advice_facts *facts)
{
    const bool purges = (facts->setup && facts->setup->purges) ||
                        is_started_with(facts, "background_thread", "true");
    const char *variable = variable_of(facts), *set;
    size_t len;
    long decay = DECAY_MS;

    set_next(advice, "purge", facts, "this returns the free pages to the kernel");
    if (!may_be_since(facts, VERSION_NUMBER(5, 0, 0)))
        return;
    set = facts->setup ? conf_started(&facts->setup->conf, "dirty_decay_ms", &len) : NULL;
    if (set)
        decay = strtol(set, NULL, 0);
    if (decay < 0)
        add_line(advice,
                 "helps: a dirty_decay_ms of 0 or more in %s at its start: with %ld jemalloc "
                 "returns no free pages",
                 variable, decay);
    else if (decay > DECAY_LATE_MS)
        add_line(advice,
                 "helps: %sa dirty_decay_ms smaller than %ld in %s at its start: free pages are "
                 "then returned soon%s",
                 purges ? "" : "background_thread:true and ", decay, variable,
                 purges ? "" : ", by idle threads too");
    else if (!purges)
        add_line(advice,
                 "helps: background_thread:true in %s at its start: the free pages of idle "
                 "threads are then returned, too",
                 variable);
}

/* Where the objects come from, as far as this process can be made to tell. */
static void advise_stacks(struct advice *advice, const struct advice_facts *facts)
{
    const struct prof_state *prof = facts->setup ? &facts->setup->prof : NULL;

    if (prof && prof->build.opt_prof == FACT_YES && !prof_is_active(prof))
        set_next(advice, "on", facts, "this samples objects from now on");
    else if (prof && prof->build.opt_prof == FACT_YES)
        set_next(advice, "peek", facts,
                 "this shows what these objects are; they are older than the samples, or too few "
                 "for one");
    else if (prof && prof->build.config_prof == FACT_NO)
        set_next(advice, "peek", facts,
                 "this shows what these objects are; their stacks need a jemalloc built with "
                 "--enable-prof");
    else
        set_next(advice, "peek", facts,
                 "this shows what these objects are; for their stacks, start it with %s=prof:true",
                 variable_of(facts));
}

static void advise_slabs(struct advice *advice, const struct advice_facts *facts)
{
    bool defragments = false;

    for (size_t i = 0; facts->program && i < ARRAY_LEN(defragmenting); i++)
        defragments = defragments || strcmp(facts->program, defragmenting[i]) == 0;
    /*
     * Redis refuses the setting unless it was compiled with the jemalloc of its source
     * distribution (HAVE_DEFRAG in config.c), which is always linked into the program.
     */
    if (defragments && facts->in_program)
        add_line(advice, "helps: redis-cli CONFIG SET activedefrag yes moves the objects together "
                         "while it runs; or a restart");
    else if (defragments)
        add_line(advice,
                 "helps: a restart; %s refuses activedefrag, as its jemalloc is a library of the "
                 "system and not the one that comes with it",
                 facts->program);
    else
        add_line(advice, "helps: a restart; jeattach purge does not: it returns no slab that has "
                         "an object in use");

    if (facts->arenas > 1 && !is_part(facts->largest, facts->slabs, SPREAD_PERCENT))
        add_line(
            advice,
            "helps: fewer arenas (narenas:N in %s at its start): this space is spread over %u, "
            "and each is filled only by threads of its own",
            variable_of(facts), facts->arenas);
    if (facts->keeper)
        add_line(advice,
                 "helps: a pool or an arena of its own for the objects of %s, which outlive "
                 "those beside them",
                 facts->keeper);
    if (!facts->has_stacks)
        advise_stacks(advice, facts);
    else
        set_next(advice, "peek", facts, "this shows what the objects are that keep it");
}

void advice_make(struct advice *advice, const struct advice_facts *facts)
{
    memset(advice, 0, sizeof *advice);
    switch (facts->most) {
    case ADVICE_SLABS:
        advise_slabs(advice, facts);
        break;
    case ADVICE_PAGES:
        advise_pages(advice, facts);
        break;
    case ADVICE_PADDING:
        if (!is_started_with(facts, "cache_oblivious", "false"))
            add_line(advice,
                     "helps: cache_oblivious:false in %s at its start (since jemalloc 5.3): each "
                     "large object then has one page less",
                     variable_of(facts));
        break;
    case ADVICE_PINNED:
        add_line(advice, "helps: only the program itself: its extent hooks keep these pages");
        break;
    case ADVICE_RETAINED:
        if (is_part(facts->huge, facts->retained, RETAINED_PERCENT))
            add_line(advice,
                     "helps: thp:never in %s at its start, as the kernel puts returned pages back "
                     "into huge pages; or khugepaged/max_ptes_none 0",
                     variable_of(facts));
        else
            add_line(advice,
                     "helps: retain:false in %s at its start: jemalloc then unmaps what it "
                     "returns; it uses these pages for its next objects",
                     variable_of(facts));
        break;
    case ADVICE_NONE:
        set_next(advice, "explain", facts, "this shows what its memory is");
        break;
    }
}

void advice_print_next(const char *command, const char *reason, FILE *out)
{
    struct wrap wrap;
    FILE *line;

    fprintf(out, "next: %s\n", command);
    if (!*reason)
        return;
    line = wrap_begin(&wrap, out);
    fprintf(line, "      %s\n", reason);
    wrap_end(&wrap, strlen("next: "), out);
}

void advice_print(const struct advice *advice, FILE *out)
{
    for (size_t i = 0; i < advice->count; i++) {
        struct wrap wrap;
        FILE *line = wrap_begin(&wrap, out);

        text_write_clean(line, advice->lines[i], "");
        fputc('\n', line);
        wrap_end(&wrap, strlen("helps: "), out);
    }
    if (*advice->command)
        advice_print_next(advice->command, advice->reason, out);
}

void advice_json(const struct advice *advice, struct json *json)
{
    json_list_begin(json, "helps");
    for (size_t i = 0; i < advice->count; i++)
        json_item_text(json, advice->lines[i]);
    json_list_end(json);
}
