/* Profiles as samples: the allocator's calls, filters, threads, differences, and output. */
#include "base/text.h"
#include "check.h"
#include "profile/views/dot.h"
#include "profile/views/flame.h"
#include "profile/views/symbolized.h"
#include "profile/views/top.h"
#include "stub_symbols.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define MAPS                                                                                       \
    "\nMAPPED_LIBRARIES:\n"                                                                        \
    "1000-2000 r-xp 00000000 08:02 1 /bin/app\n"                                                   \
    "8000-9000 r-xp 00000000 08:02 2 /lib/libjemalloc.so.2\n"                                      \
    "a000-b000 r-xp 00004000 08:02 3 /lib/libz.so\n"

#define EVIL "</script><script>alert(1)</script>\"'&;\n\x1b[31m\xff--\\"

static const struct stub_symbol app[] = {
    {0x1100, 0x1200, {{"main", "main", "/src/main.c", 10, 1}}},
    {0x1200, 0x1300, {{"parse", "parse", "/src/parse.c", 20, 1}}},
    {0x1300,
     0x1400,
     {{"grow", "grow", "/src/list.h", 5, 1}, {"load", "load", "/src/load.c", 30, 1}}},
    {0x1400, 0x1500, {{"malloc", "malloc", NULL, 0, 0}}},
    {0x1500, 0x1600, {{EVIL, "evil", NULL, 0, 0}}},
    {0x1600, 0x1700, {{"operator new(unsigned long)", "_Znwm", NULL, 0, 0}}},
    {0, 0, {{0}}},
};

/* The same program in another run. */
static const struct stub_symbol moved[] = {
    {0x51100, 0x51200, {{"main", "main", "/src/main.c", 10, 1}}},
    {0x51200, 0x51300, {{"parse", "parse", "/src/parse.c", 20, 1}}},
    {0x51300,
     0x51400,
     {{"grow", "grow", "/src/list.h", 5, 1}, {"load", "load", "/src/load.c", 30, 1}}},
    {0, 0, {{0}}},
};

static const char two_stacks[] = "heap_v2/1\n"
                                 "  t*: 3: 300 [0: 0]\n"
                                 "  t0: 2: 100 [0: 0] worker\n"
                                 "  t1: 1: 200 [0: 0]\n"
                                 "@ 0x8100 0x8200 0x1301 0x1101\n"
                                 "  t*: 2: 100 [0: 0]\n"
                                 "  t0: 2: 100 [0: 0]\n"
                                 "@ 0x8100 0x1201 0x1101\n"
                                 "  t*: 1: 200 [0: 0]\n"
                                 "  t1: 1: 200 [0: 0]\n" MAPS;

struct made {
    struct heap_profile profile, base;
    struct symbols *symbols, *base_symbols;
    struct samples samples;
};

static bool make_pair(struct made *made, const struct samples_options *options, const char *text,
                      const struct stub_symbol *table, const char *base,
                      const struct stub_symbol *base_table)
{
    struct symbols_options none = {0};
    bool good;

    memset(made, 0, sizeof *made);
    stub_next = table;
    good = heap_parse(&made->profile, text, strlen(text), NULL) == FAULT_NONE;
    made->symbols = locations_symbols(&made->profile, &none);
    stub_next = base_table;
    if (base) {
        good = good && heap_parse(&made->base, base, strlen(base), NULL) == FAULT_NONE;
        made->base_symbols = locations_symbols(&made->base, &none);
    }
    return samples_build(&made->samples, options, &made->profile, made->symbols,
                         base ? &made->base : NULL, made->base_symbols) &&
           good;
}

static bool make(struct made *made, const struct samples_options *options, const char *text)
{
    return make_pair(made, options, text, app, NULL, NULL);
}

static void unmake(struct made *made)
{
    samples_free(&made->samples);
    heap_free(&made->profile);
    heap_free(&made->base);
    symbols_free(made->symbols);
    symbols_free(made->base_symbols);
}

typedef bool (*writer)(const struct samples *samples, const struct display *display, FILE *out);

/* The output of a writer; the caller frees it. */
static char *written(const struct made *made, writer write, enum value value)
{
    struct display display = {.value = value, .unit = UNIT_BYTES, .title = EVIL};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    CHECK(write(&made->samples, &display, out));
    fclose(out);
    return text;
}

static bool folds_to(const struct made *made, const char *expected)
{
    char *text = written(made, folded_write, VALUE_BYTES);
    bool same = strcmp(text, expected) == 0;

    if (!same)
        fprintf(stderr, "  got %s", text);
    free(text);
    return same;
}

static void check_folded(const struct samples_options *options, const char *text,
                         const char *expected)
{
    struct made made;

    if (CHECK(make(&made, options, text)))
        CHECK(folds_to(&made, expected));
    unmake(&made);
}

/* Sorted like the stacks: by the order of the first use of names. */
static void test_plain(void)
{
    struct samples_options options = {0};

    check_folded(&options, two_stacks, "main;parse 200\nmain;load;grow 100\n");
}

/* Callers of the allocating function, joined where their names are equal. */
static void test_inverted(void)
{
    static const char text[] = "heap_v2/1\n"
                               "@ 0x1201 0x1101\n t*: 1: 200 [0: 0]\n"
                               "@ 0x1301 0x1101\n t*: 1: 70 [0: 0]\n"
                               "@ 0x1201 0x1301 0x1101\n t*: 1: 5 [0: 0]\n"
                               "@ 0x1202 0x1102\n t*: 1: 300 [0: 0]\n" MAPS;
    static const char *const expected[] = {"parse main ", "parse grow load main ",
                                           "grow load main "};
    static const int64_t bytes[] = {500, 5, 70};
    struct samples_options options = {0};
    struct made made;
    struct stacks stacks = {0};

    if (CHECK(make(&made, &options, text)) &&
        CHECK(stacks_make(&stacks, &made.samples, VALUE_BYTES))) {
        stacks_invert(&stacks);
        CHECK(stacks.count == 3);
        for (size_t i = 0; i < stacks.count; i++) {
            const struct named_stack *stack = &stacks.list[i];
            char names[64] = "";
            for (uint32_t j = 0; j < stack->depth; j++) {
                strcat(names, made.samples.locations.groups[stacks.names[stack->first + j]]);
                strcat(names, " ");
            }
            CHECK(strcmp(names, expected[i]) == 0 && stack->amount.now == bytes[i]);
        }
        stacks_free(&stacks);
        CHECK(stacks_make_each(&stacks, &made.samples, VALUE_BYTES) && stacks.count == 4);
        stacks_free(&stacks);
    }
    unmake(&made);
}

/* By the module's name, by the function's, and by addresses without a name before it. */
static void test_allocator_calls(void)
{
    struct samples_options options = {0};

    check_folded(&options, "heap_v2/1\n@ 0x1901 0x1401 0x1601 0x1201\n t*: 1: 8 [0: 0]\n" MAPS,
                 "parse 8\n");
    check_folded(&options, "heap_v2/1\n@ 0x1901 0x1201 0x1401\n t*: 1: 8 [0: 0]\n" MAPS,
                 "malloc;parse;app+0x900 8\n");
    check_folded(&options, "heap_v2/1\n@ 0x8101\n t*: 1: 8 [0: 0]\n" MAPS,
                 "libjemalloc.so.2+0x100 8\n");
    options.keep_allocator = true;
    check_folded(&options, "heap_v2/1\n@ 0x1401 0x1201\n t*: 1: 8 [0: 0]\n" MAPS,
                 "parse;malloc 8\n");
}

/* Of a library that wraps malloc, of a sanitizer, of the loader: also with helpers in between. */
static void test_wrappers(void)
{
    static const struct stub_symbol wrapped[] = {
        {0x1100, 0x1200, {{"main", "main", NULL, 0, 0}}},
        {0x1200, 0x1300, {{"xmalloc", "xmalloc", NULL, 0, 0}}},
        {0x1300, 0x1400, {{"__wrap_malloc", "__wrap_malloc", NULL, 0, 0}}},
        {0xa100, 0xa200, {{"malloc", "malloc", NULL, 0, 0}}},
        {0xa200, 0xa300, {{"track", "track", NULL, 0, 0}}},
        {0xa300, 0xa400, {{"__interceptor_calloc", "__interceptor_calloc", NULL, 0, 0}}},
        {0xa400, 0xa500, {{"__rtld_malloc", "__rtld_malloc", NULL, 0, 0}}},
        {0xa500, 0xa600, {{"malloc.part.0", "malloc.part.0", NULL, 0, 0}}},
        {0xa600, 0xa700, {{"malloc_trim", "malloc_trim", NULL, 0, 0}}},
        {0, 0, {{0}}},
    };
    static const struct {
        const char *stack, *expected;
    } rows[] = {
        {"0x8100 0xa101 0x1101", "main"},
        {"0x8100 0xa201 0xa201 0xa101 0x1201 0x1101", "main;xmalloc"},
        {"0x8100 0xa901 0xa201 0xa101 0x1101", "main"},
        {"0x8100 0xa201 0x1201 0xa101 0x1101", "main;malloc;xmalloc;track"},
        {"0x8100 0xa201 0x1101", "main;track"},
        {"0x8100 0xa301 0x1101", "main"},
        {"0x8100 0xa401 0x1101", "main"},
        {"0x8100 0xa501 0x1101", "main"},
        {"0x8100 0xa601 0x1101", "main;malloc_trim"},
        {"0x8100 0x1301 0x1201 0x1101", "main;xmalloc"},
        {"0x8100 0xa201 0xa101", "malloc;track"},
    };
    struct samples_options options = {.keep_plumbing = true};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[512], expected[128];
        struct made made;
        snprintf(text, sizeof text, "heap_v2/1\n@ %s\n t*: 1: 8 [0: 0]\n" MAPS, rows[i].stack);
        snprintf(expected, sizeof expected, "%s 8\n", rows[i].expected);
        if (CHECK(make_pair(&made, &options, text, wrapped, NULL, NULL)))
            CHECK(folds_to(&made, expected));
        unmake(&made);
    }
}

static void test_unknown(void)
{
    struct samples_options options = {0};

    check_folded(&options, "heap_v2/1\n@ 0xa011 0xf001 0x1101\n t*: 1: 8 [0: 0]\n" MAPS,
                 "main;0xf000;libz.so+0x4010 8\n");
}

/* A sample without addresses is not lost: the sum is jeprof's. */
static void test_no_stack(void)
{
    static const char text[] = "heap_v2/1\n  t*: 2: 24 [0: 0]\n  t0: 2: 24 [0: 0] worker\n"
                               "@\n t*: 1: 8 [0: 0]\n t0: 1: 8 [0: 0]\n"
                               "@ 0x1101\n t*: 1: 16 [0: 0]\n t0: 1: 16 [0: 0]\n" MAPS;
    struct samples_options options = {0};
    struct made made;
    regex_t regex;

    check_folded(&options, text, "[no stack] 8\nmain 16\n");
    check_folded(&options, "heap profile: 1: 8 [0: 0] @ heap_v2/1\n1: 8 [0: 0] @\n",
                 "[no stack] 8\n");
    if (CHECK(make_pair(&made, &options, text, app, text, app)))
        CHECK(samples_total(&made.samples, VALUE_BYTES).base == 24 && folds_to(&made, ""));
    unmake(&made);
    options.by_thread = options.thread_frames = true;
    check_folded(&options, text, "[thread worker];[no stack] 8\n[thread worker];main 16\n");
    options = (struct samples_options){.filter = {.focus = &regex}};
    CHECK(regcomp(&regex, "no stack", REG_EXTENDED | REG_NOSUB) == 0);
    check_folded(&options, text, "[no stack] 8\n");
    options = (struct samples_options){.filter = {.ignore = &regex}};
    check_folded(&options, text, "main 16\n");
    regfree(&regex);
}

static void check_filter(struct filter filter, const char *expected)
{
    struct samples_options options = {.filter = filter};
    check_folded(&options, two_stacks, expected);
}

/* pprof's Profile.FilterSamplesByName. */
static void test_filters(void)
{
    regex_t load, parse, list, module, none;

    CHECK(regcomp(&load, "^load$", REG_EXTENDED | REG_NOSUB) == 0);
    CHECK(regcomp(&parse, "parse|x", REG_EXTENDED | REG_NOSUB) == 0);
    CHECK(regcomp(&list, "list\\.h", REG_EXTENDED | REG_NOSUB) == 0);
    CHECK(regcomp(&module, "/bin/app", REG_EXTENDED | REG_NOSUB) == 0);
    CHECK(regcomp(&none, "nothing", REG_EXTENDED | REG_NOSUB) == 0);
    check_filter((struct filter){.focus = &load}, "main;load;grow 100\n");
    check_filter((struct filter){.ignore = &load}, "main;parse 200\n");
    check_filter((struct filter){.focus = &load, .ignore = &list}, "");
    check_filter((struct filter){.hide = &list}, "main;parse 200\nmain;load 100\n");
    check_filter((struct filter){.hide = &parse}, "main 200\nmain;load;grow 100\n");
    check_filter((struct filter){.show = &list}, "grow 100\n");
    check_filter((struct filter){.show = &module}, "main;parse 200\nmain;load;grow 100\n");
    check_filter((struct filter){.hide = &module}, "");
    check_filter((struct filter){.focus = &none}, "");
    regfree(&load);
    regfree(&parse);
    regfree(&list);
    regfree(&module);
    regfree(&none);
}

/* Patterns mean what they mean to regcomp(3). */
static void test_patterns(void)
{
    static const char *const patterns[] = {
        "foo",   "^foo",        "bar$",  "^foo$",  "foo.*bar", "foo|^bar", "^$",         "",
        "o{2}",  "(f|b)o+",     "[]b]a", "[^\\]$", "a\\.b",    "(^b|o$)",  "[[.a.]1-9]", "\\(1\\)",
        "[\\1]", "[[:digit:]]", "a|b|",  "()",     "x*",       ")",
    };
    static const char *const texts[] = {"",     "foo",   "bar",   "foobar", "xfoo bar", "a.b",
                                        "a\\1", "f(1)o", "\nfoo", "]a",     "barfoo",   "7"};
    static const char *const wrong[] = {"(", "a)|(b", "[", "a{1", "\\", "*("};
    regex_t plain, linear;

    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        if (!CHECK(regcomp(&plain, patterns[i], REG_EXTENDED | REG_NOSUB) == 0) ||
            !CHECK(filter_compile(&linear, patterns[i]) == 0))
            continue;
        for (size_t j = 0; j < ARRAY_LEN(texts); j++)
            if (!CHECK((regexec(&plain, texts[j], 0, NULL, 0) == 0) ==
                       filter_matches(&linear, texts[j])))
                fprintf(stderr, "  %s: %s\n", patterns[i], texts[j]);
        regfree(&plain);
        regfree(&linear);
    }
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        CHECK(regcomp(&plain, wrong[i], REG_EXTENDED | REG_NOSUB) ==
              filter_compile(&linear, wrong[i]));
    CHECK(filter_compile(&linear, "(a)\\1") == REG_ESUBREG);
    CHECK(filter_compile(&linear, "([[:alpha:]]])x\\1") == REG_ESUBREG);
}

/* Matched from each place of such a name, it would take ten minutes; so it takes milliseconds. */
static void test_long_name(void)
{
    enum { LEN = 1 << 20 };
    char *name = malloc(LEN + 1);
    regex_t regex;

    if (!CHECK(name) || !CHECK(filter_compile(&regex, "foo.*bar") == 0)) {
        free(name);
        return;
    }
    for (size_t i = 0; i < LEN; i++)
        name[i] = "foo"[i % 3];
    name[LEN] = '\0';
    alarm(120);
    CHECK(!filter_matches(&regex, name));
    memcpy(name + LEN - 3, "bar", 3);
    CHECK(filter_matches(&regex, name));
    alarm(0);
    regfree(&regex);
    free(name);
}

static void test_threads(void)
{
    struct samples_options options = {.by_thread = true, .thread_frames = true};
    struct made made;

    check_folded(&options, two_stacks,
                 "[thread worker];main;load;grow 100\n[thread 1];main;parse 200\n");
    options.thread_frames = false;
    if (CHECK(make(&made, &options, two_stacks)) && CHECK(made.samples.count == 2)) {
        CHECK(strcmp(made.samples.threads[made.samples.list[0].thread].name, "worker") == 0);
        CHECK(made.samples.threads[made.samples.list[1].thread].uid == 1);
        CHECK(folds_to(&made, "main;parse 200\nmain;load;grow 100\n"));
    }
    unmake(&made);
}

static void test_truncated(void)
{
    struct samples_options options = {0};
    char text[4096] = "heap_v2/1\n@";
    struct made made;

    for (unsigned i = 0; i < HEAP_DEPTH_LIMIT; i++)
        strcat(text, i ? " 0x1101" : " 0x1201");
    strcat(text, "\n t*: 1: 8 [0: 0]\n" MAPS);
    if (CHECK(make(&made, &options, text))) {
        char *folded = written(&made, folded_write, VALUE_BYTES);
        CHECK(strncmp(folded, "[truncated];main;", strlen("[truncated];main;")) == 0);
        CHECK(made.samples.cut == 1);
        free(folded);
    }
    unmake(&made);
}

/* A recursion counts once; the sums are those of the stacks. */
static void test_top(void)
{
    struct samples_options options = {0};
    struct display display = {.value = VALUE_BYTES};
    struct made made;
    struct top top;

    if (CHECK(make(&made, &options,
                   "heap_v2/1\n@ 0x1301 0x1201 0x1301 0x1101\n t*: 4: 100 [0: 0]\n"
                   "@ 0x1201 0x1101\n t*: 1: 60 [0: 0]\n" MAPS)) &&
        CHECK(top_make(&top, &made.samples, &display))) {
        const char **names = made.samples.locations.groups;
        CHECK(top.total.now == 160 && top.objects.now == 5);
        CHECK(strcmp(names[top.rows[0].group], "grow") == 0 && top.rows[0].flat.now == 100 &&
              top.rows[0].whole.now == 100 && top.rows[0].objects.now == 4);
        CHECK(strcmp(names[top.rows[1].group], "parse") == 0 && top.rows[1].flat.now == 60 &&
              top.rows[1].whole.now == 160);
        CHECK(strcmp(names[top.rows[2].group], "main") == 0 && top.rows[2].flat.now == 0 &&
              top.rows[2].whole.now == 160);
        free(top.rows);
    }
    unmake(&made);
}

/* Addresses have changed, names have not: nothing grew. */
static void test_no_difference(void)
{
    static const char other[] = "heap_v2/1\n"
                                "@ 0x51201 0x51101\n t*: 1: 200 [0: 0]\n"
                                "@ 0x51301 0x51101\n t*: 2: 100 [0: 0]\n"
                                "\nMAPPED_LIBRARIES:\n51000-52000 r-xp 0 08:02 1 /bin/app\n";
    struct samples_options options = {0};
    struct made made;

    if (CHECK(make_pair(&made, &options, two_stacks, app, other, moved))) {
        char *rows = written(&made, top_write, VALUE_BYTES);
        CHECK(made.samples.count == 2);
        CHECK(folds_to(&made, ""));
        CHECK(!strstr(rows, "main"));
        free(rows);
    }
    unmake(&made);
}

static void test_difference(void)
{
    static const char other[] = "heap_v2/1\n"
                                "@ 0x51201 0x51101\n t*: 1: 50 [0: 0]\n"
                                "@ 0x51101\n t*: 1: 7 [0: 0]\n"
                                "\nMAPPED_LIBRARIES:\n51000-52000 r-xp 0 08:02 1 /bin/app\n";
    struct samples_options options = {0};
    struct display display = {.value = VALUE_BYTES};
    struct made made;
    struct top top;

    if (CHECK(make_pair(&made, &options, two_stacks, app, other, moved)) &&
        CHECK(top_make(&top, &made.samples, &display))) {
        CHECK(top.total.now == 300 && top.total.base == 57);
        CHECK(amount_growth(&top.rows[0].flat) == 150);
        CHECK(folds_to(&made, "main 7 0\nmain;parse 50 200\nmain;load;grow 0 100\n"));
        free(top.rows);
    }
    unmake(&made);
}

/* Impossible numbers: sums saturate, nothing overflows. */
static void test_huge(void)
{
    static const char text[] = "heap_v2/524288\n"
                               "@ 0x1201\n t*: 18446744073709551615: 18446744073709551615 [0: 0]\n"
                               "@ 0x1101\n t*: 1: 18446744073709551615 [0: 0]\n" MAPS;
    struct samples_options options = {0};
    struct made made;

    if (CHECK(make_pair(&made, &options, text, app, text, app))) {
        struct amount total = samples_total(&made.samples, VALUE_BYTES);
        CHECK(total.now == INT64_MAX && total.base == INT64_MAX);
        free(written(&made, top_write, VALUE_BYTES));
        free(written(&made, flame_write, VALUE_BYTES));
        free(written(&made, dot_write, VALUE_OBJECTS));
    }
    unmake(&made);
}

/* Sampled growth has an error, of two standard deviations of both profiles together. */
static void test_error(void)
{
    static const char text[] = "heap_v2/1000\n@ 0x1201\n t*: 10: 20000 [0: 0]\n" MAPS;
    struct samples_options options = {0};
    struct made made;
    double p = 1 - exp(-2);

    if (CHECK(make_pair(&made, &options, text, app, text, app))) {
        struct amount total = samples_total(&made.samples, VALUE_BYTES);
        double expected = 2 * sqrt(2 * 10 * 2000.0 * 2000 * (1 - p) / (p * p));
        CHECK(fabs(amount_error(&total) - expected) < 1e-6 * expected);
        CHECK(total.now == llrint(20000 / p) && amount_growth(&total) == 0);
    }
    unmake(&made);
}

static const char evil[] = "heap_v2/1\n@ 0x1501 0x1101\n t*: 1: 8 [0: 0]\n" MAPS;

/* Any bytes in a name, in every format. */
static void test_hostile_names(void)
{
    struct samples_options options = {0};
    struct made made;

    if (CHECK(make(&made, &options, evil))) {
        char *page = written(&made, flame_write, VALUE_BYTES),
             *graph = written(&made, dot_write, VALUE_BYTES),
             *rows = written(&made, top_write, VALUE_BYTES);
        const char *data = strstr(page, "id=\"data\">");
        CHECK(data && !strstr(data, "alert(1)<") && !strstr(data, "<script"));
        CHECK(data && strstr(data, "\\u003c/script\\u003e"));
        CHECK(strstr(graph,
                     "tooltip=\"</script><script>alert(1)</script>\\\"'&;??[31m?--\\\\ (8)\""));
        CHECK(strstr(graph, "31m?--\\\\\\n8 (100.00%)"));
        CHECK(strstr(rows, "</script>\"'&;??[31m?--\\\n") && !strchr(rows, '\x1b'));
        CHECK(folds_to(&made, "main;</script><script>alert(1)</script>\"'&???[31m?--\\ 8\n"));
        free(page);
        free(graph);
        free(rows);
    }
    unmake(&made);
}

/* jeprof splits names at "--", and expects the first address unchanged. */
static void test_symbolized(void)
{
    struct samples_options options = {0};
    struct made made;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (CHECK(make(&made, &options, evil)))
        symbolized_write(&made.samples.locations, made.samples.first_location, &made.profile, evil,
                         strlen(evil), out);
    fclose(out);
    CHECK(strncmp(text, "--- symbol\nbinary=/bin/app\n", 27) == 0);
    CHECK(strstr(text, "\n0x0000000000001100 main\n") &&
          strstr(text, "\n0x0000000000001101 main\n"));
    CHECK(strstr(text, "[31m?-_\\\n") && strstr(text, "\n---\n--- heap\nheap_v2/1\n"));
    free(text);
    unmake(&made);
}

/* Boxes too small to draw are merged into one, and nothing is lost. */
static void test_flame_pruned(void)
{
    struct samples_options options = {0};
    struct display display = {.value = VALUE_BYTES, .least = 0.5};
    struct made made;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (CHECK(make(&made, &options, two_stacks)))
        CHECK(flame_write(&made.samples, &display, out));
    fclose(out);
    CHECK(strstr(text, "\"callees\":[0,0,-300,0,0,2,0,0,4,100,1,0,200,1],"));
    CHECK(strstr(text, "\"callers\":[0,0,-300,0,0,4,100,0,2,0,2,0,200,1],"));
    CHECK(strstr(text, "\"texts\":[\"\",\"main\",\"/src/main.c\",\"/bin/app\",\"parse\","
                       "\"/src/parse.c\"],"
                       "\"calls\":[0,0,0,0,0,0,1,1,2,10,3,0,4,4,5,20,3,0]}"));
    free(text);
    unmake(&made);
}

int main(void)
{
    test_plain();
    test_inverted();
    test_allocator_calls();
    test_wrappers();
    test_unknown();
    test_no_stack();
    test_filters();
    test_patterns();
    test_long_name();
    test_threads();
    test_truncated();
    test_top();
    test_no_difference();
    test_difference();
    test_huge();
    test_error();
    test_hostile_names();
    test_symbolized();
    test_flame_pruned();
    return check_result();
}
