/*
 * The live objects of a process by its records in memory (jemalloc/extents/), for comparison with
 * what it says of itself (e2e_extents.py). Usage: sums PID [LIMIT [ADDRESS]...]
 */
#include "base/json.h"
#include "jemalloc/extents/totals.h"

#include <inttypes.h>

static void write_totals(const struct extent_totals *totals)
{
    struct json json;

    json_begin(&json, stdout);
    json_number(&json, "extents", totals->pass.extents);
    json_number(&json, "unsettled", totals->pass.unsettled);
    json_number(&json, "ns", totals->pass.ns);
    json_rounded(&json, "per_million", totals->pass.share * 1e6);
    json_list_begin(&json, "bins");
    for (unsigned i = 0; i < totals->classes.bins; i++) {
        json_item_begin(&json);
        json_number(&json, "size", totals->classes.list[i].size);
        json_number(&json, "per_slab", totals->classes.list[i].objects);
        json_number(&json, "slabs", totals->slab[i].slabs);
        json_number(&json, "nonfull", totals->slab[i].nonfull);
        json_number(&json, "objects", totals->slab[i].objects);
        json_number(&json, "sampled", totals->large[i].objects);
        json_item_end(&json);
    }
    json_list_end(&json);
    json_list_begin(&json, "large");
    for (unsigned i = totals->classes.bins; i < totals->classes.count; i++) {
        json_item_begin(&json);
        json_number(&json, "size", totals->classes.list[i].size);
        json_number(&json, "objects", totals->large[i].objects);
        json_number(&json, "bytes", totals->large[i].bytes);
        json_item_end(&json);
    }
    json_list_end(&json);
    json_end(&json);
}

static void write_at(struct extents *extents, remote_addr addr)
{
    struct extent extent;

    if (!extents_at(extents, addr, &extent)) {
        printf("%#" PRIx64 " none\n", addr);
        return;
    }
    printf("%#" PRIx64 " size %" PRIu64 " offset %" PRIu64 " used %d\n", addr, extent.size,
           (addr - extent.start) % extent.size,
           extent_in_use(&extent, (uint32_t)((addr - extent.start) / extent.size)));
}

static fault_code read_sums(const struct reader_source *source, int argc, char **argv,
                            struct fault *fault)
{
    static struct extent_totals totals;
    struct extents *extents;
    fault_code rc = extents_open(&extents, source, fault);

    if (rc != FAULT_NONE)
        return rc;
    rc = totals_read(extents, argc > 2 ? strtoull(argv[2], NULL, 0) : 0, &totals, fault);
    if (rc == FAULT_NONE)
        write_totals(&totals);
    for (int i = 3; i < argc; i++)
        write_at(extents, strtoull(argv[i], NULL, 0));
    extents_close(extents);
    return rc;
}

int main(int argc, char **argv)
{
    struct procfs proc;
    struct target target;
    struct memory memory;
    struct modules modules;
    struct instance instance;
    struct fault fault = {0};
    const struct reader_source source = {
        .instance = &instance, .modules = &modules, .target = &target, .memory = &memory};

    if (argc < 2 || procfs_open(&proc, "/proc") < 0)
        return 2;
    if (target_open(&target, &proc, atoi(argv[1]), &fault) != FAULT_NONE)
        goto failed;
    memory_open(&memory, &target, NULL);
    if (modules_load(&modules, &target, &fault) == FAULT_NONE &&
        instance_find(&instance, &modules, &target, &memory, &fault) == FAULT_NONE &&
        read_sums(&source, argc, argv, &fault) == FAULT_NONE)
        return 0;
failed:
    fprintf(stderr, "%#x reason %d: %s: %s\n", (unsigned)fault.code, fault.reason, fault.stage,
            fault.what);
    return 1;
}
