/* What is advised against free memory, from facts. */
#include "base/util.h"
#include "check.h"
#include "cli/output/advice.h"

#include <stdlib.h>
#include <string.h>

static bool says(const struct advice_facts *facts, const char *words)
{
    struct advice advice;
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    bool found;

    if (!out)
        return false;
    advice_make(&advice, facts);
    advice_print(&advice, out);
    fclose(out);
    found = strstr(text, words) != NULL;
    free(text);
    return found;
}

/* Purging returns no slab, and redis moves objects only with a jemalloc of its own. */
static void test_slabs(void)
{
    struct advice_setup setup = {.conf.variable.name = "_RJEM_MALLOC_CONF"};
    struct advice_facts facts = {
        .setup = &setup, .most = ADVICE_SLABS, .pid = 7, .slabs = 100 << 20, .arenas = 1};

    facts.largest = facts.slabs;
    facts.program = "server";
    CHECK(says(&facts, "a restart; jeattach purge does not"));
    CHECK(!says(&facts, "activedefrag") && !says(&facts, "fewer arenas"));
    CHECK(says(&facts, "jeattach peek 7") && !says(&facts, "jeattach on"));
    CHECK(says(&facts, "_RJEM_MALLOC_CONF=prof:true"));
    setup.prof.build.config_prof = FACT_NO;
    CHECK(says(&facts, "--enable-prof") && !says(&facts, "prof:true"));
    setup.prof.build.config_prof = setup.prof.build.opt_prof = FACT_YES;
    CHECK(says(&facts, "jeattach on 7") && !says(&facts, "peek"));
    setup.prof.prof_active = FACT_YES;
    CHECK(says(&facts, "jeattach peek 7") && !says(&facts, "jeattach on"));
    facts.program = "redis-server";
    CHECK(says(&facts, "redis-server refuses activedefrag") && !says(&facts, "CONFIG SET"));
    facts.in_program = true;
    CHECK(says(&facts, "CONFIG SET activedefrag yes") && !says(&facts, "refuses"));
    facts.program = NULL;
    facts.has_stacks = true;
    CHECK(says(&facts, "jeattach peek 7") && !says(&facts, "for their stacks"));
    facts.keeper = "keep (a.c:3)";
    CHECK(says(&facts, "for the objects of keep (a.c:3)"));
}

static void test_arenas(void)
{
    struct advice_facts facts = {
        .most = ADVICE_SLABS, .slabs = 100 << 20, .arenas = 8, .largest = 20 << 20};

    CHECK(says(&facts, "fewer arenas") && says(&facts, "spread over 8"));
    facts.largest = 90 << 20;
    CHECK(!says(&facts, "fewer arenas"));
}

/* What is set already is not advised, nor what the version does not have. */
static void test_pages(void)
{
    static const struct {
        const char *settings;
        bool purges;
        unsigned version;
        const char *words; /* NULL: only the command */
    } rows[] = {
        {"", false, 50300, "background_thread:true and a dirty_decay_ms smaller than 10000 in X_"},
        {"background_thread:true", false, 50300, "helps: a dirty_decay_ms smaller than 10000 in X"},
        {"narenas:2", true, 50300, "helps: a dirty_decay_ms smaller than 10000 in X_MALLOC_CONF"},
        {"dirty_decay_ms:500", false, 50201, "helps: background_thread:true in X_MALLOC_CONF"},
        {"background_thread:true,dirty_decay_ms:0", false, 50300, NULL},
        {"dirty_decay_ms:1000", true, 0, NULL},
        {"dirty_decay_ms:-1", true, 0, "with -1 jemalloc returns no free pages"},
        {"background_thread:true,dirty_decay_ms=0", false, 50300, "smaller than 10000"},
        {"", false, 40500, NULL},
    };
    struct advice_setup setup = {.conf.variable = {.name = "X_MALLOC_CONF", .set = true}};
    const struct advice_facts facts = {.setup = &setup, .most = ADVICE_PAGES, .pid = 7};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(setup.conf.variable.text, CONF_TEXT_MAX, "%s", rows[i].settings);
        setup.purges = rows[i].purges;
        setup.prof.build.version.number = rows[i].version;
        CHECK(says(&facts, "jeattach purge 7"));
        CHECK(rows[i].words ? says(&facts, rows[i].words) : !says(&facts, "helps:"));
    }
}

static void test_others(void)
{
    struct advice_facts facts = {.most = ADVICE_PAGES};

    CHECK(says(&facts, "jeattach purge PID") && says(&facts, "background_thread:true"));
    facts.most = ADVICE_PADDING;
    CHECK(says(&facts, "cache_oblivious:false") && !says(&facts, "purge"));
    facts.most = ADVICE_PINNED;
    CHECK(says(&facts, "extent hooks") && !says(&facts, "purge"));
    facts.most = ADVICE_NONE;
    CHECK(!says(&facts, "helps") && says(&facts, "jeattach explain PID"));
}

int main(void)
{
    test_slabs();
    test_arenas();
    test_pages();
    test_others();
    return check_result();
}
