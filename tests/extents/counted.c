/*
 * The gauges of a process, counted from its records (jemalloc/extents/counted.h), for comparison
 * with what it says of itself (e2e_counted.py). Usage: counted PID [LIMIT]
 */
#include "jemalloc/extents/counted.h"
#include "base/json.h"

static void write_gauge(struct json *json, const struct counted *counted, enum ctl_gauge gauge,
                        const char *name, uint64_t value)
{
    if (counted_has(counted, gauge))
        json_number(json, name, value);
    else
        json_null(json, name);
}

static void write_counted(const struct counted *counted, uint64_t ns)
{
    const struct stats_gauges *gauges = &counted->gauges;
    struct json json;

    json_begin(&json, stdout);
    write_gauge(&json, counted, CTL_ALLOCATED, "allocated", gauges->allocated);
    write_gauge(&json, counted, CTL_ACTIVE, "active", gauges->active);
    write_gauge(&json, counted, CTL_METADATA, "metadata", gauges->metadata);
    write_gauge(&json, counted, CTL_RESIDENT, "resident", gauges->resident);
    write_gauge(&json, counted, CTL_MAPPED, "mapped", gauges->mapped);
    write_gauge(&json, counted, CTL_RETAINED, "retained", gauges->retained);
    write_gauge(&json, counted, CTL_PINNED, "pinned", gauges->pinned);
    json_number(&json, "in_use", counted->in_use);
    json_number(&json, "sampling", counted->sampling);
    json_number(&json, "internal", counted->internal);
    if (counted->has_free_pages)
        json_number(&json, "free_pages", counted->free_pages);
    json_number(&json, "between", counted->slabs);
    json_bool(&json, "present", counted->present.known);
    json_number(&json, "present_in_use", counted->present.in_use);
    json_number(&json, "present_sampling", counted->present.sampling);
    json_number(&json, "present_between", counted->present.slabs + counted->present.padding);
    json_number(&json, "present_free_pages", counted->present.free_pages);
    json_rounded(&json, "per_million", counted->share * 1e6);
    json_number(&json, "unsettled", counted->unsettled);
    json_number(&json, "ns", ns);
    json_end(&json);
}

static fault_code count_process(const struct reader_source *source, uint64_t limit,
                                struct fault *fault)
{
    struct counted counted;
    struct extents *extents;
    fault_code rc = extents_open(&extents, source, fault);
    uint64_t began = clock_now();

    if (rc != FAULT_NONE)
        return rc;
    rc = counted_read(extents, source, limit, &counted, fault);
    if (rc == FAULT_NONE)
        write_counted(&counted, clock_now() - began);
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
        count_process(&source, argc > 2 ? strtoull(argv[2], NULL, 0) : 0, &fault) == FAULT_NONE)
        return 0;
failed:
    fprintf(stderr, "%#x reason %d: %s: %s\n", (unsigned)fault.code, fault.reason, fault.stage,
            fault.what);
    return 1;
}
