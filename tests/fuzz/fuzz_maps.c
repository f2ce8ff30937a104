/* The text of /proc/PID/maps: any bytes make a list that is sorted and can be searched. */
#include "elf/modules.h"
#include "fuzz.h"

#include <string.h>

static void check_vma(const struct modules *modules, size_t i)
{
    const struct vma *vma = &modules->vmas[i];

    expect(vma->start < vma->end);
    expect(i == 0 || modules->vmas[i - 1].end <= vma->start);
    expect(modules_vma_at(modules, vma->start) == vma);
    expect(modules_vma_at(modules, vma->end - 1) == vma);
    const struct vma *next = modules_vma_at(modules, vma->end);
    expect(!next || next == vma + 1);
    expect(vma->module >= -1 && vma->module < (int)modules->count);
}

static void check_module_of(const struct modules *modules, const struct vma *vma)
{
    const struct module *module = modules_at(modules, vma->start);

    if (vma->module < 0) {
        expect(!module);
        return;
    }
    expect(module == &modules->list[vma->module]);
    expect(module->start <= vma->start && vma->end <= module->end);
    if (vma->prot & MAP_EXEC)
        expect(module->exec_start <= vma->start && vma->end <= module->exec_end);
}

static void check_module(const struct module *module)
{
    const char *name = module_name(module);

    expect(module->start < module->first_end && module->first_end <= module->end);
    expect(module->exec_start <= module->exec_end);
    expect(name >= module->path && name <= module->path + strlen(module->path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct modules modules;

    if (!modules_parse(&modules, (const char *)data, size))
        return 0;
    for (size_t i = 0; i < modules.vma_count; i++) {
        check_vma(&modules, i);
        check_module_of(&modules, &modules.vmas[i]);
    }
    for (size_t i = 0; i < modules.count; i++)
        check_module(&modules.list[i]);
    expect(!modules_vma_at(&modules, UINT64_MAX));
    modules_free(&modules);
    return 0;
}
