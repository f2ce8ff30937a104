#include "contents/places.h"
#include "elf/image.h"

enum { LOWEST = 1 << 16 }; /* vm.mmap_min_addr */

bool places_init(struct places *places, struct memory *memory, const struct modules *modules)
{
    *places = (struct places){memory, modules, NULL};
    places->ends = calloc(modules->count ? modules->count : 1, sizeof *places->ends);
    return places->ends != NULL;
}

void places_free(struct places *places)
{
    free(places->ends);
}

/* The end of its last segment, .bss included; its end in the file if there are no headers. */
static remote_addr find_module_end(struct memory *memory, const struct module *module)
{
    struct image image;
    remote_addr end = module->end;

    if (!image_open(&image, memory, module->start))
        return end;
    for (size_t i = 0; i < image.phdr_count; i++) {
        const Elf64_Phdr *phdr = &image.phdrs[i];
        remote_addr last = image.bias + phdr->p_vaddr + phdr->p_memsz;
        if (phdr->p_type == PT_LOAD && last > end)
            end = last;
    }
    return end;
}

/* The part of .bss that is in no page of the file is an anonymous mapping right behind it. */
static int module_of_bss(struct places *places, const struct vma *vma, remote_addr addr)
{
    const struct vma *before = vma - 1;
    size_t index;

    if (vma == places->modules->vmas || before->module < 0 || before->end != vma->start)
        return PLACE_MEMORY;
    index = (size_t)before->module;
    if (!places->ends[index])
        places->ends[index] =
            find_module_end(places->memory, &places->modules->list[before->module]);
    return addr < places->ends[index] ? before->module : PLACE_MEMORY;
}

int places_at(struct places *places, remote_addr addr)
{
    const struct vma *vma = addr >= LOWEST ? modules_vma_at(places->modules, addr) : NULL;

    if (!vma || !vma->prot)
        return PLACE_NOWHERE;
    return vma->module >= 0 ? vma->module : module_of_bss(places, vma, addr);
}
