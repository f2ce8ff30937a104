#include "jemalloc/left_behind.h"
#include "base/util.h"
#include "jemalloc/ctl.h"

#include <stdio.h>
#include <stdlib.h>

/* arenas.narenas is at most 4095, and 4096 is the sum of all (ctl.h, MALLCTL_ARENAS_ALL). */
enum { ARENAS_MAX = 4095, AT_ONCE = 39, NAME_SIZE = 64 };

/* A read of some arenas. */
struct look {
    struct injection *injection;
    const struct instance *instance;
    struct ctl_op ops[AT_ONCE];
    char names[AT_ONCE][NAME_SIZE];
    unsigned arenas[AT_ONCE];
    size_t count;
};

static void add_arena_read(struct look *look, unsigned arena, const char *name, enum ctl_type type)
{
    char *text = look->names[look->count];

    snprintf(text, NAME_SIZE, "stats.arenas.%u.%s", arena, name);
    look->arenas[look->count] = arena;
    look->ops[look->count++] = (struct ctl_op){.name = text, .type = type};
}

static fault_code run_arena_reads(struct look *look, struct fault *fault)
{
    return ctl_run(look->injection, look->instance, look->ops, look->count, NULL, fault);
}

/* jemalloc refuses every name of an arena that is not initialized. */
static fault_code find_idle_arenas(struct look *look, unsigned narenas, unsigned *idle,
                                   unsigned *count, struct left_behind *left, struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    for (unsigned arena = 0; arena < narenas && rc == FAULT_NONE;) {
        look->count = 0;
        while (arena < narenas && look->count < AT_ONCE)
            add_arena_read(look, arena++, "nthreads", CTL_UNSIGNED);
        rc = run_arena_reads(look, fault);
        for (size_t i = 0; i < look->count && rc == FAULT_NONE; i++) {
            left->initialized += look->ops[i].rc == 0;
            if (look->ops[i].rc == 0 && look->ops[i].value == 0)
                idle[(*count)++] = look->arenas[i];
        }
    }
    return rc;
}

static void add_free_space(const struct bin *all, uint64_t slabs, uint64_t objects,
                           struct left_behind *left)
{
    const struct bin own = {
        .size = all->size, .per_slab = all->per_slab, .slabs = slabs, .objects = objects};
    const uint64_t bytes = bin_waste(&own);

    left->arenas += bytes > 0;
    if (__builtin_add_overflow(left->bytes, bytes, &left->bytes))
        left->bytes = UINT64_MAX;
}

/* Slabs are runs before 5.0: one of the two names is refused. */
static fault_code read_idle_arenas(struct look *look, const struct bin *all, size_t number,
                                   const unsigned *idle, unsigned count, struct left_behind *left,
                                   struct fault *fault)
{
    enum { READS = 3 };
    static const char *const leaves[READS] = {"curslabs", "curruns", "curregs"};
    fault_code rc = FAULT_NONE;
    char name[NAME_SIZE / 2];

    for (unsigned i = 0; i < count && rc == FAULT_NONE;) {
        for (look->count = 0; i < count && look->count + READS <= AT_ONCE; i++)
            for (unsigned j = 0; j < READS; j++) {
                snprintf(name, sizeof name, "bins.%zu.%s", number, leaves[j]);
                add_arena_read(look, idle[i], name, CTL_SIZE);
            }
        rc = run_arena_reads(look, fault);
        for (size_t j = 0; j < look->count && rc == FAULT_NONE; j += READS) {
            const struct ctl_op *ops = &look->ops[j];
            if (ops[2].rc == 0)
                add_free_space(all, ops[0].rc == 0 ? ops[0].value : ops[1].value, ops[2].value,
                               left);
        }
    }
    return rc;
}

fault_code left_behind_read(struct injection *injection, const struct instance *instance,
                            const struct bins *bins, size_t number, struct left_behind *left,
                            struct fault *fault)
{
    struct ctl_op arenas = {.name = "arenas.narenas", .type = CTL_UNSIGNED};
    struct look look = {.injection = injection, .instance = instance};
    const struct bin *all = &bins->arenas->bins[number];
    AUTO_FREE unsigned *idle = NULL;
    unsigned narenas, count = 0;
    fault_code rc = ctl_run(injection, instance, &arenas, 1, NULL, fault);

    *left = (struct left_behind){.size = all->size};
    if (rc != FAULT_NONE)
        return rc;
    narenas = arenas.rc ? 0 : arenas.value < ARENAS_MAX ? (unsigned)arenas.value : ARENAS_MAX;
    idle = calloc(narenas + 1, sizeof *idle);
    if (!idle)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "arenas", "out of memory");
    rc = find_idle_arenas(&look, narenas, idle, &count, left, fault);
    return rc == FAULT_NONE ? read_idle_arenas(&look, all, number, idle, count, left, fault) : rc;
}

void left_behind_take(const struct bins *bins, size_t number, struct left_behind *left)
{
    const struct bin *all = &bins->arenas->bins[number];

    *left = (struct left_behind){.size = all->size};
    for (size_t i = 1; i < bins->count; i++) {
        const struct arena_bins *arena = &bins->arenas[i];
        left->initialized++;
        if (arena->threads == 0 && number < arena->bin_count)
            add_free_space(all, arena->bins[number].slabs, arena->bins[number].objects, left);
    }
}
