/* A profile in every output format: no number and no name may break a format. */
#include "../unit/stub_symbols.h"
#include "base/json.h"
#include "fuzz.h"
#include "profile/views/call_tree.h"
#include "profile/views/dot.h"
#include "profile/views/flame.h"
#include "profile/views/pprof.h"
#include "profile/views/profile_json.h"
#include "profile/views/symbolized.h"
#include "profile/views/top.h"
#include "profile/views/tree.h"

#include <string.h>

enum { BASE_AND_THREADS = 1, KEEP_ALLOCATOR = 2, OBJECTS = 4 };

/* Every other 256 bytes are code with a name that no format must break on. */
static const struct stub_symbol table[] = {
    {0x1000, 0x1100, {{"malloc", "malloc", NULL, 0, 0}}},
    {0x1200, 0x1300, {{"a;b</script>\"\\", "a", "/src/a.c", 1, 1}, {"outer", "outer", "", 0, 0}}},
    {0x1400, 0x1500, {{"\xff\n\x1b", "", NULL, 7, 0}}},
    {0, 0, {{0}}},
};

static void write_json(const struct samples *samples, const struct display *display)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    expect(out && profile_json_write(samples, display, out) && fclose(out) == 0);
    expect(json_valid(text, len));
    free(text);
}

/* Each call has what its parts have, with and without limits. */
static void write_trees(const struct samples *samples, const struct display *display, FILE *out)
{
    for (unsigned shape = 0; shape < 8; shape++) {
        struct display own = *display;
        struct call_tree tree;
        own.inverted = shape & 1;
        own.lines = shape & 2;
        own.rows = shape & 4 ? 3 : 0;
        own.colors = shape & 1;
        own.width = shape & 4 ? 40 : 0;
        expect(call_tree_make(&tree, samples, &own));
        for (size_t i = 0; i < tree.count; i++)
            expect(tree.nodes[i].count == 0 ||
                   (tree.nodes[i].first > i &&
                    tree.nodes[i].first + tree.nodes[i].count <= tree.count));
        expect(own.rows == 0 || tree.nodes[0].count <= own.rows + 2);
        call_tree_free(&tree);
        expect(tree_write(samples, &own, out));
    }
}

static void write_all(const struct samples *samples, const struct display *display, FILE *out)
{
    struct pprof_info info = {0};

    expect(top_write(samples, display, out));
    write_trees(samples, display, out);
    expect(folded_write(samples, display, out));
    expect(flame_write(samples, display, out));
    expect(dot_write(samples, display, out));
    expect(pprof_write(samples, display, &info, out) == PPROF_DONE);
    write_json(samples, display);
}

/* No sample is larger than the sum of all, unless the sum has saturated. */
static void check_sums(const struct samples *samples, enum value value)
{
    struct amount total = samples_total(samples, value);

    expect(total.now >= 0 && total.base >= 0);
    for (size_t i = 0; i < samples->count; i++) {
        expect(samples->list[i].depth > 0);
        expect(samples->list[i].values[value].now <= total.now);
        expect(samples->list[i].values[value].base <= total.base);
    }
}

static void build(const struct heap_profile *profile, unsigned flags, const char *text, size_t len)
{
    static FILE *nowhere;
    struct samples_options options = {.by_thread = flags & BASE_AND_THREADS,
                                      .thread_frames = flags & OBJECTS,
                                      .keep_allocator = flags & KEEP_ALLOCATOR};
    struct display display = {.value = flags & OBJECTS ? VALUE_OBJECTS : VALUE_BYTES,
                              .least = 0.01};
    struct symbols_options none = {0};
    struct symbols *symbols;
    struct samples samples;

    if (!nowhere)
        nowhere = fopen("/dev/null", "we");
    stub_next = table;
    symbols = locations_symbols(profile, &none);
    expect(nowhere && symbols);
    expect(samples_build(&samples, &options, profile, symbols,
                         flags & BASE_AND_THREADS ? profile : NULL, symbols));
    check_sums(&samples, display.value);
    write_all(&samples, &display, nowhere);
    symbolized_write(&samples.locations, samples.first_location, profile, text + profile->header_at,
                     len - profile->header_at, nowhere);
    samples_free(&samples);
    symbols_free(symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heap_profile profile;

    if (heap_parse(&profile, (const char *)data, size, NULL) == FAULT_NONE)
        build(&profile, size % 8, (const char *)data, size);
    heap_free(&profile);
    return 0;
}
