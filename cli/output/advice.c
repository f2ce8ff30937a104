#include "cli/output/advice.h"
#include "base/text.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/output/wrap.h"

#include <stdarg.h>
#include <string.h>

/* Below these parts of the free space in slabs a cause is not worth a line. */
enum { SPREAD_PERCENT = 50 };

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

static bool is_part(uint64_t bytes, uint64_t whole, unsigned percent)
{
    return whole && (double)bytes * 100 >= (double)whole * percent;
}

static void advise_slabs(struct advice *advice, const struct advice_facts *facts, const char *pid)
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
        add_line(advice,
                 "helps: fewer arenas (narenas:N in MALLOC_CONF at its start): this space is "
                 "spread over %u, and each is filled only by threads of its own",
                 facts->arenas);
    if (facts->keeper)
        add_line(advice,
                 "helps: a pool or an arena of its own for the objects of %s, which outlive "
                 "those beside them",
                 facts->keeper);
    else if (!facts->has_stacks && facts->can_sample)
        add_line(advice, "next: jeattach on %s, so that objects are sampled from now on", pid);
    else if (!facts->has_stacks)
        add_line(advice,
                 "next: jeattach peek %s shows what these objects are; for their stacks, start it "
                 "with MALLOC_CONF=prof:true",
                 pid);
}

void advice_make(struct advice *advice, const struct advice_facts *facts)
{
    char pid[16] = "PID";

    if (facts->pid)
        snprintf(pid, sizeof pid, "%d", facts->pid);
    memset(advice, 0, sizeof *advice);
    switch (facts->most) {
    case ADVICE_SLABS:
        advise_slabs(advice, facts, pid);
        break;
    case ADVICE_PAGES:
        add_line(advice, "next: jeattach purge %s returns the free pages to the kernel", pid);
        add_line(advice, "helps: background_thread:true and a small dirty_decay_ms in MALLOC_CONF "
                         "at its start: free pages are then returned soon, by idle threads too");
        break;
    case ADVICE_PADDING:
        add_line(advice, "helps: cache_oblivious:false in MALLOC_CONF at its start (since jemalloc "
                         "5.3): each large object then has one page less");
        break;
    case ADVICE_PINNED:
        add_line(advice, "helps: only the program itself: its extent hooks keep these pages");
        break;
    case ADVICE_RETAINED:
        if (is_part(facts->huge, facts->retained, RETAINED_PERCENT))
            add_line(advice, "helps: thp:never in MALLOC_CONF at its start, as the kernel puts "
                             "returned pages back into huge pages; or khugepaged/max_ptes_none 0");
        else
            add_line(advice,
                     "helps: retain:false in MALLOC_CONF at its start: jemalloc then unmaps "
                     "what it returns; it uses these pages for its next objects");
        break;
    case ADVICE_NONE:
        break;
    }
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
}

void advice_json(const struct advice *advice, const char *name, struct json *json)
{
    json_list_begin(json, name);
    for (size_t i = 0; i < advice->count; i++)
        json_item_text(json, advice->lines[i]);
    json_list_end(json);
}
