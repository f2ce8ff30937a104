#include "jemalloc/tsd/arenas.h"
#include "jemalloc/stripped/getters.h"

#include <stdlib.h>

enum { ARENA_ALIGNED = 16 };

static bool has_all(const struct tsd_arenas *arenas, const remote_addr *used, size_t count)
{
    if (!arenas->list[0])
        return false;
    for (size_t i = 0; i < count; i++)
        if (tsd_arena_number(arenas, used[i]) < 0)
            return false;
    return true;
}

/* What follows the array's end may be anything: the first word that is no address ends it. */
static bool read_array(struct tsd_arenas *arenas, remote_addr at, struct memory *memory)
{
    size_t n = TSD_ARENAS_MAX;

    while (n && !memory_read(memory, at, arenas->list, n * sizeof *arenas->list))
        n /= 2;
    for (size_t i = 0; i < n; i++)
        if (arenas->list[i] % ARENA_ALIGNED)
            n = i;
    while (n && !arenas->list[n - 1])
        n--;
    arenas->count = n;
    return n > 0;
}

/* Since 5.0 the variable is the array, before it points to it. */
static bool try_array(struct tsd_arenas *arenas, remote_addr variable, const remote_addr *used,
                      size_t count, struct memory *memory)
{
    remote_addr behind;

    return (read_array(arenas, variable, memory) && has_all(arenas, used, count)) ||
           (memory_read(memory, variable, &behind, sizeof behind) && behind % 8 == 0 &&
            read_array(arenas, behind, memory) && has_all(arenas, used, count));
}

static bool try_getters(struct tsd_arenas *arenas, const remote_addr *used, size_t count,
                        const struct instance *instance, const struct target *target,
                        struct memory *memory)
{
    struct getter_variables found;

    getters_find_arenas(&found, instance, target, memory);
    for (size_t i = 0; i < found.count; i++)
        if (try_array(arenas, found.list[i], used, count, memory))
            return true;
    return false;
}

bool tsd_arenas_find(struct tsd_arenas *arenas, const remote_addr *used, size_t count,
                     const struct fact_variables *variables, const struct instance *instance,
                     const struct target *target, struct memory *memory)
{
    remote_addr named = variables->at[VARIABLE_ARENAS].address;

    arenas->count = 0;
    arenas->list = calloc(TSD_ARENAS_MAX, sizeof *arenas->list);
    if (arenas->list && count &&
        ((named && try_array(arenas, named, used, count, memory)) ||
         try_getters(arenas, used, count, instance, target, memory)))
        return true;
    tsd_arenas_free(arenas);
    return false;
}

void tsd_arenas_free(struct tsd_arenas *arenas)
{
    free(arenas->list);
    arenas->list = NULL;
    arenas->count = 0;
}

int tsd_arena_number(const struct tsd_arenas *arenas, remote_addr arena)
{
    for (size_t i = 0; arena && i < arenas->count; i++)
        if (arenas->list[i] == arena)
            return (int)i;
    return -1;
}
