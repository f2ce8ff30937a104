/* Size classes and arenas in the report of malloc_stats_print("J"). */
#include "fuzz.h"
#include "jemalloc/bins.h"

static void check_arena(const struct arena_bins *arena)
{
    for (size_t i = 0; i < arena->bin_count; i++) {
        const struct bin *bin = &arena->bins[i];
        uint64_t waste = bin_waste(bin);
        expect(!waste || bin->slabs * bin->per_slab >= bin->objects);
    }
    for (size_t i = 0; i < arena->large_count; i++)
        expect(arena->large[i].objects != 0);
    expect(memchr(arena->name, '\0', sizeof arena->name) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bins bins;
    struct fault fault;

    if (bins_parse(&bins, (const char *)data, size, &fault) == FAULT_NONE) {
        expect(bins.count > 0 && bins.arenas[0].arena == -1 && bins.arenas[0].bin_count > 0);
        for (size_t i = 0; i < bins.count; i++) {
            expect(i == 0 || bins.arenas[i].arena >= 0);
            check_arena(&bins.arenas[i]);
        }
    }
    bins_free(&bins);
    return 0;
}
