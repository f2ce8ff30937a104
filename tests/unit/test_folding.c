/* Innermost calls of libraries count as those of the caller, inlined ones included. */
#include "check.h"
#include "profile/views/stacks.h"
#include "stub_symbols.h"

#include <string.h>

#define MAPS                                                                                       \
    "\nMAPPED_LIBRARIES:\n"                                                                        \
    "1000-2000 r-xp 00000000 08:02 1 /bin/app\n"                                                   \
    "8000-9000 r-xp 00000000 08:02 2 /lib/x86_64-linux-gnu/libc.so.6\n"                            \
    "9000-a000 r-xp 00000000 08:02 3 /usr/lib/libjemalloc.so.2\n"

#define PUSH                                                                                       \
    {                                                                                              \
        "std::vector<int>::push_back(int)", "", NULL, 0, 0                                         \
    }

static const struct stub_symbol app[] = {
    {0x1100, 0x1200, {{"main", "main", "/src/main.cc", 10, 1}}},
    {0x1200, 0x1300, {{"app::load()", "", "/src/load.cc", 20, 1}}},
    {0x1300, 0x1400, {PUSH, {"app::fill()", "", "/src/fill.cc", 30, 1}}},
    {0x1400, 0x1500, {{"void std::vector<int>::grow<int>(int)", "", NULL, 0, 0}}},
    {0x1500, 0x1600, {PUSH, {"std::sort<int>()", "", NULL, 0, 0}}},
    {0x8100, 0x8200, {{"qsort", "qsort", NULL, 0, 0}}},
    {0x8200, 0x8300, {{"init", "init", NULL, 0, 0}}},
    {0x1600, 0x1700, {{"init", "init", NULL, 0, 0}}}, /* the program's own has the same name */
    {0, 0, {{0}}},
};

struct made {
    struct heap_profile profile;
    struct symbols *symbols;
    struct samples samples;
};

static bool build(struct made *made, const struct samples_options *options, const char *stack)
{
    struct symbols_options none = {0};
    char text[1024];

    memset(made, 0, sizeof *made);
    snprintf(text, sizeof text, "heap_v2/1\n@ %s\n t*: 1: 8 [0: 0]\n" MAPS, stack);
    stub_next = app;
    if (heap_parse(&made->profile, text, strlen(text), NULL) != FAULT_NONE)
        return false;
    made->symbols = locations_symbols(&made->profile, &none);
    return made->symbols &&
           samples_build(&made->samples, options, &made->profile, made->symbols, NULL, NULL);
}

static void unbuild(struct made *made)
{
    samples_free(&made->samples);
    heap_free(&made->profile);
    symbols_free(made->symbols);
}

static void check_folds(const struct samples_options *options, const char *stack,
                        const char *expected, size_t folded)
{
    struct display display = {.value = VALUE_BYTES};
    struct made made;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (CHECK(build(&made, options, stack)))
        CHECK(folded_write(&made.samples, &display, out));
    fclose(out);
    if (!CHECK(strcmp(text, expected) == 0))
        fprintf(stderr, "  got %s", text);
    CHECK(made.samples.folded == folded);
    free(text);
    unbuild(&made);
}

static const struct samples_options fold, short_names = {.short_names = true},
                                          whole = {.keep_plumbing = true},
                                          allocator = {.keep_allocator = true};

static void test_run(void)
{
    check_folds(&fold, "0x9101 0x1401 0x1501 0x1201 0x1101", "main;app::load() 8\n", 3);
    check_folds(&whole, "0x9101 0x1401 0x1201 0x1101",
                "main;app::load();void std::vector<int>::grow<int>(int) 8\n", 0);
    check_folds(&allocator, "0x9101 0x1401 0x1101",
                "main;void std::vector<int>::grow<int>(int);libjemalloc.so.2+0x100 8\n", 0);
}

/* Never across the program's own code. */
static void test_between(void)
{
    check_folds(&fold, "0x1201 0x1401 0x1101",
                "main;void std::vector<int>::grow<int>(int);app::load() 8\n", 0);
    check_folds(&fold, "0x1401 0x1201 0x1501 0x1101",
                "main;std::sort<int>();std::vector<int>::push_back(int);app::load() 8\n", 1);
}

/* A location with own code below inlined calls loses only these, only as the innermost one. */
static void test_inlined(void)
{
    check_folds(&fold, "0x1401 0x1301 0x1101", "main;app::fill() 8\n", 2);
    check_folds(&fold, "0x1201 0x1301 0x1101",
                "main;app::fill();std::vector<int>::push_back(int);app::load() 8\n", 0);
}

static void test_nothing_own(void)
{
    check_folds(&fold, "0x1401 0x1501",
                "std::sort<int>();std::vector<int>::push_back(int);"
                "void std::vector<int>::grow<int>(int) 8\n",
                0);
    check_folds(&short_names, "0x1401", "std::vector::grow 8\n", 0);
    check_folds(&fold, "", "[no stack] 8\n", 0);
}

/* By the module: also a call without a name. */
static void test_module(void)
{
    check_folds(&fold, "0x8101 0x8901 0x1201 0x1101", "main;app::load() 8\n", 2);
    check_folds(&fold, "0x8201 0x1601 0x1101", "main;init 8\n", 1);
}

static void test_hidden(void)
{
    struct samples_options hides = {0}, shows = {0};
    regex_t own, library;

    CHECK(regcomp(&own, "^app::", REG_EXTENDED | REG_NOSUB) == 0);
    CHECK(regcomp(&library, "^std::|vector", REG_EXTENDED | REG_NOSUB) == 0);
    hides.filter.hide = &own;
    shows.filter.show = &library;
    check_folds(&hides, "0x1401 0x1301 0x1101", "main 8\n", 2);
    check_folds(&shows, "0x1401 0x1301 0x1101",
                "std::vector<int>::push_back(int);void std::vector<int>::grow<int>(int) 8\n", 0);
    regfree(&own);
    regfree(&library);
}

/* Rows that would look the same are one row. */
static void test_short_names(void)
{
    struct made made;

    if (CHECK(build(&made, &short_names, "0x1401 0x1501 0x1301 0x1201 0x1101"))) {
        const struct locations *locations = &made.samples.locations;
        bool full = false;
        for (size_t i = 0; i < locations->group_count; i++) {
            const char *name = locations->functions[locations->group_functions[i]].name;
            for (size_t j = 0; j < i; j++)
                CHECK(strcmp(locations->groups[i], locations->groups[j]) != 0);
            if (strcmp(locations->groups[i], "std::vector::push_back") == 0)
                full = strcmp(name, "std::vector<int>::push_back(int)") == 0;
        }
        CHECK(full);
    }
    unbuild(&made);
}

int main(void)
{
    test_run();
    test_between();
    test_inlined();
    test_nothing_own();
    test_module();
    test_hidden();
    test_short_names();
    return check_result();
}
