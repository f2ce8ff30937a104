/*
 * The live objects of a process and its samples (jemalloc/extents/live.h), for comparison with
 * what it says of itself (e2e_live.py). Usage: live PID. Takes a look for each line of its stdin,
 * and prints it as one line of JSON; at the end the stacks.
 */
#include "jemalloc/extents/live.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void write_look(const struct live *live, const struct live_look *look)
{
    const struct classes *classes = live_classes(live);
    const char *comma = "";

    printf("{\"has_samples\": %s, \"at_ns\": %" PRIu64 ", \"took_ns\": %" PRIu64
           ", \"share\": %.9f, \"stale\": %zu, \"left_out\": %zu, \"classes\": [",
           live_has_samples(live) ? "true" : "false", look->at_ns, look->took_ns, look->share,
           look->stale, look->left_out);
    for (unsigned i = 0; i < classes->count; i++)
        if (look->objects[i] || look->bytes[i]) {
            printf("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", comma, classes->list[i].size,
                   look->objects[i], look->bytes[i]);
            comma = ", ";
        }
    printf("], \"samples\": [");
    for (size_t i = 0; i < look->sample_count; i++)
        printf("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %d]", i ? ", " : "",
               look->samples[i].start, look->samples[i].birth,
               classes->list[look->samples[i].class].size, (int)look->samples[i].stack);
    printf("]}\n");
    fflush(stdout);
}

static void write_stacks(const struct live_stacks *stacks)
{
    printf("[");
    for (size_t i = 0; i < stacks->count; i++) {
        printf("%s[", i ? ", " : "");
        for (uint32_t k = 0; k < stacks->list[i].depth; k++)
            printf("%s%" PRIu64, k ? ", " : "", stacks->words[stacks->list[i].first + k]);
        printf("]");
    }
    printf("]\n");
}

static fault_code take_looks(const struct reader_source *source, struct modules *modules,
                             struct fault *fault)
{
    struct live_look look = {0};
    struct live *live;
    char line[64];
    fault_code rc = live_open(&live, source, true, fault);

    while (rc == FAULT_NONE && fgets(line, sizeof line, stdin)) {
        modules_free(modules);
        rc = modules_load(modules, source->target, fault);
        if (rc == FAULT_NONE)
            rc = live_take(live, &look, fault);
        if (rc == FAULT_NONE)
            write_look(live, &look);
    }
    if (rc == FAULT_NONE)
        write_stacks(live_stacks(live));
    live_look_free(&look);
    live_close(live);
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

    if (argc != 2 || procfs_open(&proc, "/proc") < 0)
        return 2;
    if (target_open(&target, &proc, atoi(argv[1]), &fault) != FAULT_NONE)
        goto failed;
    memory_open(&memory, &target, NULL);
    if (modules_load(&modules, &target, &fault) == FAULT_NONE &&
        instance_find(&instance, &modules, &target, &memory, &fault) == FAULT_NONE &&
        take_looks(&source, &modules, &fault) == FAULT_NONE)
        return 0;
failed:
    fprintf(stderr, "%#x reason %d: %s: %s\n", (unsigned)fault.code, fault.reason, fault.stage,
            fault.what);
    return 1;
}
