/* The tree of calls: sums, order, pruning, and its text. */
#include "check.h"
#include "profile/views/call_tree.h"
#include "profile/views/tree.h"
#include "stub_symbols.h"

#include <string.h>

#define MAPS "\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000000 08:02 1 /bin/app\n"

static const struct stub_symbol app[] = {
    {0x1100, 0x1180, {{"main", "main", "/src/main.c", 10, 1}}},
    {0x1180, 0x1200, {{"main", "main", "/src/main.c", 11, 1}}},
    {0x1200, 0x1300, {{"parse\x1b", "parse", "/src/parse.c", 20, 1}}},
    {0x1300,
     0x1400,
     {{"grow", "grow", "/src/list.h", 5, 1}, {"load", "load", "/src/load.c", 30, 1}}},
    {0x1400, 0x1500, {{"deep", "deep", NULL, 0, 0}}},
    {0x1500, 0x1600, {{"std::first", "first", "/usr/include/first.h", 1, 1}}},
    {0x1600, 0x1700, {{"std::second", "second", "/usr/include/second.h", 2, 1}}},
    {0x1700, 0x1800, {{"std::third", "third", "/usr/include/third.h", 3, 1}}},
    {0, 0, {{0}}},
};

/* main 700: load and grow 400, parse 200 (100 of it in main again), itself 90, deep 10. */
static const char text[] = "heap_v2/1\n"
                           "@ 0x1301 0x1101\n t*: 4: 400 [0: 0]\n"
                           "@ 0x1201 0x1101\n t*: 1: 100 [0: 0]\n"
                           "@ 0x1101 0x1201 0x1181\n t*: 1: 100 [0: 0]\n"
                           "@ 0x1181\n t*: 9: 90 [0: 0]\n"
                           "@ 0x1401 0x1101\n t*: 1: 10 [0: 0]\n" MAPS;
static const char before[] = "heap_v2/1\n"
                             "@ 0x1301 0x1101\n t*: 1: 100 [0: 0]\n"
                             "@ 0x1201 0x1101\n t*: 2: 300 [0: 0]\n"
                             "@ 0x1401 0x1101\n t*: 1: 10 [0: 0]\n" MAPS;

struct made {
    struct heap_profile profile, base;
    struct symbols *symbols, *base_symbols;
    struct samples samples;
    struct call_tree tree;
};

static bool make(struct made *made, const char *now, const char *base, struct display *display)
{
    struct samples_options options = {0};
    struct symbols_options none = {0};
    bool good;

    memset(made, 0, sizeof *made);
    stub_next = app;
    good = heap_parse(&made->profile, now, strlen(now), NULL) == FAULT_NONE &&
           (made->symbols = locations_symbols(&made->profile, &none));
    if (good && base)
        good = heap_parse(&made->base, base, strlen(base), NULL) == FAULT_NONE &&
               (made->base_symbols = locations_symbols(&made->base, &none));
    return good &&
           samples_build(&made->samples, &options, &made->profile, made->symbols,
                         base ? &made->base : NULL, made->base_symbols) &&
           call_tree_make(&made->tree, &made->samples, display);
}

static void unmake(struct made *made)
{
    call_tree_free(&made->tree);
    samples_free(&made->samples);
    symbols_free(made->symbols);
    symbols_free(made->base_symbols);
    heap_free(&made->profile);
    heap_free(&made->base);
}

/* The children of each node add up to it. */
static void check_sums(const struct call_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        const struct call_node *node = &tree->nodes[i];
        int64_t now = 0, base = 0, objects = 0;
        for (uint32_t j = 0; j < node->count; j++) {
            const struct call_node *child = &tree->nodes[node->first + j];
            now += child->amount.now;
            base += child->amount.base;
            objects += child->objects.now;
            CHECK(child->depth == node->depth + 1);
        }
        CHECK(node->count == 0 || (now == node->amount.now && base == node->amount.base &&
                                   objects == node->objects.now));
    }
}

static const struct call_node *child(const struct made *made, const struct call_node *node,
                                     uint32_t number)
{
    return &made->tree.nodes[node->first + number];
}

static const char *name_of(const struct made *made, const struct call_node *node)
{
    return node->function == CALL_SELF ? "(itself)"
           : node->function == CALL_SMALLER
               ? "(smaller)"
               : made->samples.locations.functions[node->function].name;
}

static bool node_is(const struct made *made, const struct call_node *node, const char *name,
                    int64_t now, int64_t objects, unsigned line)
{
    return strcmp(name_of(made, node), name) == 0 && node->amount.now == now &&
           node->objects.now == objects && node->line == line;
}

static void test_from_root(void)
{
    struct display display = {.value = VALUE_BYTES};
    const struct call_node *node;
    struct made made;

    if (CHECK(make(&made, text, NULL, &display))) {
        check_sums(&made.tree);
        node = &made.tree.nodes[0];
        CHECK(node->count == 1 && node->amount.now == 700);
        node = child(&made, node, 0);
        CHECK(node_is(&made, node, "main", 700, 16, 0) && node->count == 4); /* two lines */
        CHECK(node_is(&made, child(&made, node, 0), "load", 400, 4, 30));
        CHECK(node_is(&made, child(&made, child(&made, node, 0), 0), "grow", 400, 4, 5));
        CHECK(node_is(&made, child(&made, node, 2), "(itself)", 90, 9, 0));
        CHECK(node_is(&made, child(&made, node, 3), "deep", 10, 1, 0));
        node = child(&made, node, 1);
        CHECK(node_is(&made, node, "parse\x1b", 200, 2, 20) && node->count == 2);
        CHECK(node_is(&made, child(&made, node, 0), "(itself)", 100, 1, 0) ||
              node_is(&made, child(&made, node, 1), "(itself)", 100, 1, 0));
    }
    unmake(&made);
}

/* The functions that allocate add up to the whole; below them are their callers. */
static void test_inverted(void)
{
    struct display display = {.value = VALUE_BYTES, .inverted = true};
    const struct call_node *root;
    struct made made;

    if (CHECK(make(&made, text, NULL, &display))) {
        check_sums(&made.tree);
        root = &made.tree.nodes[0];
        CHECK(root->count == 4);
        CHECK(node_is(&made, child(&made, root, 0), "grow", 400, 4, 5));
        CHECK(node_is(&made, child(&made, child(&made, root, 0), 0), "load", 400, 4, 30));
        CHECK(node_is(&made, child(&made, root, 1), "main", 190, 10, 0));
        CHECK(node_is(&made, child(&made, root, 2), "parse\x1b", 100, 1, 20));
        CHECK(node_is(&made, child(&made, root, 3), "deep", 10, 1, 0));
    }
    unmake(&made);
}

static void test_lines(void)
{
    struct display display = {.value = VALUE_BYTES, .lines = true};
    const struct call_node *root;
    struct made made;

    if (CHECK(make(&made, text, NULL, &display))) {
        check_sums(&made.tree);
        root = &made.tree.nodes[0];
        CHECK(root->count == 2);
        CHECK(node_is(&made, child(&made, root, 0), "main", 510, 6, 10));
        CHECK(node_is(&made, child(&made, root, 1), "main", 190, 10, 11));
    }
    unmake(&made);
}

/* What is left out is counted where it is missing. */
static void test_pruned(void)
{
    struct display display = {.value = VALUE_BYTES, .least = 0.2};
    const struct call_node *node;
    struct made made;

    if (CHECK(make(&made, text, NULL, &display))) {
        check_sums(&made.tree);
        node = child(&made, &made.tree.nodes[0], 0);
        CHECK(node->count == 4 && child(&made, node, 3)->calls == 1);
        CHECK(node_is(&made, child(&made, node, 3), "(smaller)", 10, 1, 0));
    }
    unmake(&made);
    display = (struct display){.value = VALUE_BYTES, .rows = 2};
    if (CHECK(make(&made, text, NULL, &display))) {
        check_sums(&made.tree);
        node = child(&made, &made.tree.nodes[0], 0);
        CHECK(node->count == 3 && child(&made, node, 2)->calls == 2);
        CHECK(node_is(&made, child(&made, node, 0), "load", 400, 4, 30));
        CHECK(child(&made, node, 0)->count == 1);
        CHECK(node_is(&made, child(&made, node, 1), "(itself)", 90, 9, 0));
        CHECK(node_is(&made, child(&made, node, 2), "(smaller)", 210, 3, 0));
    }
    unmake(&made);
    display = (struct display){.value = VALUE_BYTES, .depth = 1};
    if (CHECK(make(&made, text, NULL, &display))) {
        node = child(&made, &made.tree.nodes[0], 0);
        CHECK(made.tree.count == 2 && node->cut && node->count == 0);
    }
    unmake(&made);
}

static void test_growth(void)
{
    struct display display = {.value = VALUE_BYTES, .least = 0.005};
    const struct call_node *node;
    struct made made;

    if (CHECK(make(&made, text, before, &display))) {
        node = child(&made, &made.tree.nodes[0], 0);
        CHECK(amount_growth(&node->amount) == 290 && node->weight == 490);
        CHECK(strcmp(name_of(&made, child(&made, node, 0)), "load") == 0);
        CHECK(strcmp(name_of(&made, child(&made, node, 1)), "(itself)") == 0);
        CHECK(strcmp(name_of(&made, child(&made, node, 2)), "parse\x1b") == 0);
        CHECK(amount_growth(&child(&made, node, 2)->amount) == -100);
        CHECK(node->count == 3); /* deep has not changed */
    }
    unmake(&made);
}

/* A stack far deeper than any memory for recursion has. */
static void test_deep(void)
{
    enum { DEPTH = 200000 };
    struct display display = {.value = VALUE_BYTES};
    size_t size = DEPTH * 7 + 256, len;
    char *deep = malloc(size), *written = NULL;
    FILE *out = open_memstream(&written, &len);
    struct made made;
    int used = deep ? snprintf(deep, size, "heap_v2/1\n@") : 0;

    if (!CHECK(deep && out))
        return;
    for (int i = 0; i < DEPTH; i++)
        used += snprintf(deep + used, size - (size_t)used, i % 2 ? " 0x1101" : " 0x1201");
    snprintf(deep + used, size - (size_t)used, "\n t*: 1: 7 [0: 0]\n" MAPS);
    if (CHECK(make(&made, deep, NULL, &display))) {
        CHECK(made.tree.count == DEPTH + 2); /* the root, and "[truncated]" */
        check_sums(&made.tree);
        CHECK(tree_write(&made.samples, &display, out));
    }
    unmake(&made);
    fclose(out);
    free(deep);
    free(written);
}

static bool writes(const struct made *made, struct display *display, const char *wanted)
{
    char *found = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&found, &len);
    bool good = out && tree_write(&made->samples, display, out);

    good = out && fclose(out) == 0 && good && strcmp(found, wanted) == 0;
    if (!good)
        fprintf(stderr, "%s", found);
    free(found);
    return good;
}

/* Names come from the target: nothing in them acts on a terminal. */
static void test_text(void)
{
    struct display display = {.value = VALUE_BYTES};
    struct made made;

    if (CHECK(make(&made, text, NULL, &display))) {
        CHECK(writes(&made, &display,
                     "sampled: 700 B in use, 16 objects, 5 stacks\n"
                     "    bytes   share    objects  calls, outermost first\n"
                     "    700 B  100.0%         16  main (main.c)\n"
                     "    400 B   57.1%          4  |-load (load.c:30)\n"
                     "                              | grow (list.h:5)\n"
                     "    200 B   28.6%          2  |-parse? (parse.c:20)\n"
                     "    100 B   14.3%          1  | |-main (main.c:10)\n"
                     "    100 B   14.3%          1  | `-(itself)\n"
                     "     90 B   12.9%          9  |-(itself)\n"
                     "     10 B    1.4%          1  `-deep\n"));
        display = (struct display){.value = VALUE_BYTES, .least = 0.2, .utf8 = true};
        CHECK(writes(&made, &display,
                     "sampled: 700 B in use, 16 objects, 5 stacks\n"
                     "    bytes   share    objects  calls, outermost first\n"
                     "    700 B  100.0%         16  main (main.c)\n"
                     "    400 B   57.1%          4  ├─load (load.c:30)\n"
                     "                              │ grow (list.h:5)\n"
                     "    200 B   28.6%          2  ├─parse? (parse.c:20)\n"
                     "    100 B   14.3%          1  │ ├─(itself)\n"
                     "    100 B   14.3%          1  │ └─1 smaller call\n"
                     "     90 B   12.9%          9  ├─(itself)\n"
                     "     10 B    1.4%          1  └─1 smaller call\n"));
    }
    unmake(&made);
}

/* What is left out is said in the first line if it is more than a hundredth. */
static void test_title(void)
{
    struct display display = {.title = "app[7]", .unread_stacks = 1, .read_stacks = 100};
    char title[DISPLAY_TITLE_SIZE];

    CHECK(strcmp(display_title(&display, title), "app[7]") == 0);
    display.unread_stacks = 2;
    CHECK(strcmp(display_title(&display, title),
                 "app[7]; 2 of 102 stacks could not be read and are left out") == 0);
    display.doubt = DOUBT_MAPS_CUT;
    CHECK(strstr(display_title(&display, title), "names are missing; 2 of 102 stacks "));
}

/* Calls of libraries share a line: all of them, or the first, a number, and the last if it fits. */
static void test_runs(void)
{
    static const char stack[] = "heap_v2/1\n"
                                "@ 0x1301 0x1701 0x1601 0x1501 0x1101\n t*: 1: 10 [0: 0]\n" MAPS;
    static const struct {
        size_t width;
        bool unfolded;
        const char *wanted;
    } cases[] = {
        {0, false, "std::first > std::second > std::third\n"},
        {30 + 37, false, "std::first > std::second > std::third\n"},
        {30 + 36, false, "std::first > 1 more > std::third\n"},
        {30 + 33, false, "std::first > 2 more\n"},
        {0, true,
         "std::first\n                              std::second\n"
         "                              std::third\n"},
    };
    struct display display = {.value = VALUE_BYTES};
    struct made made;

    if (CHECK(make(&made, stack, NULL, &display)))
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            char wanted[512];
            display.width = cases[i].width;
            display.unfolded = cases[i].unfolded;
            snprintf(wanted, sizeof wanted,
                     "sampled: 10 B in use, 1 object, 1 stack\n"
                     "    bytes   share    objects  calls, outermost first\n"
                     "     10 B  100.0%%          1  main (main.c:10)\n%30s%s%30sload (load.c:30)\n"
                     "%30sgrow (list.h:5)\n",
                     "", cases[i].wanted, "", "");
            CHECK(writes(&made, &display, wanted));
        }
    unmake(&made);
}

int main(void)
{
    test_from_root();
    test_inverted();
    test_lines();
    test_pruned();
    test_growth();
    test_deep();
    test_text();
    test_title();
    test_runs();
    return check_result();
}
