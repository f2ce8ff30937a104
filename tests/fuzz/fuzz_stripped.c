/*
 * A program without symbols: the input is at a fixed address of the program's own memory, between
 * unreadable pages. The seed's pointers are made for that address (test_x86_64_stripped FILE writes
 * it).
 */
#include "jemalloc/stripped/stripped.h"
#include "own_pages.h"

#include <string.h>

static struct instance instance;

static void check_plan(struct plan *plan)
{
    plan_seal(plan);
    for (size_t i = 0; i < plan->forbidden.count; i++) {
        const struct code_range *range = &plan->forbidden.list[i];
        expect(range->start < range->end && range->start >= base);
        expect(range->end <= base + PAGES * PAGE);
    }
    plan_free(plan);
}

static void look(const struct module *module)
{
    struct plan plan = {.errno_location = 0};
    struct fault fault;
    const char *why;
    char version[VERSION_TEXT_MAX];

    instance.module = *module;
    for (size_t nth = 0; nth < 3; nth++) {
        if (!stripped_find(&instance, module, &target, &memory, nth, &why))
            continue;
        expect(!why && instance.mallctl >= base && instance.mallctl < base + PAGES * PAGE);
        expect(memchr(instance.version, 0, sizeof instance.version) != NULL);
        expect(memchr(instance.prefix, 0, sizeof instance.prefix) != NULL);
    }
    stripped_version(&instance, &target, &memory, version, sizeof version);
    if (stripped_forbid(&instance, &plan, &target, &memory, &fault) == FAULT_NONE)
        expect(plan.forbidden.count > 0);
    check_plan(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static size_t former;
    static char path[] = "input";
    const struct module module = {.path = path,
                                  .start = base,
                                  .end = base + PAGES * PAGE,
                                  .exec_start = base + PAGE,
                                  .exec_end = base + PAGES * PAGE};

    if (!memory.unchanging)
        own_pages_prepare();
    if (size > PAGES * PAGE)
        return -1;
    memcpy((void *)base, data, size);
    if (former > size)
        memset((void *)(base + size), 0, former - size);
    former = size;
    memory_forget(&memory);
    look(&module);
    return 0;
}
