#include "elf/tls.h"

#include <string.h>

enum {
    DYNAMIC_MAX = 256,
    RELOCATIONS_MAX = 1 << 20,
    PART = 512, /* relocations that are read at once */
    NUMBER_MAX = 1 << 16,
    DTV_AT = 8,      /* of the pointer to the dtv, from the thread pointer */
    SELF_AGAIN = 16, /* where glibc's thread points to itself a second time; in musl, prev */
    DTV_GLIBC = 16,  /* bytes of an entry of the dtv: the address, to_free */
    DTV_MUSL = 8,
    BLOCK_MAX = 1 << 24,
};

static const Elf64_Phdr *tls_segment(const struct image *image)
{
    for (size_t i = 0; i < image->phdr_count; i++)
        if (image->phdrs[i].p_type == PT_TLS && image->phdrs[i].p_memsz <= BLOCK_MAX)
            return &image->phdrs[i];
    return NULL;
}

/* ---- a library ---- */

/* Finds the relocations that DT_RELA names; their size is in bytes. */
static bool find_rela(const struct image *image, remote_addr *at, uint64_t *size)
{
    *at = *size = 0;
    for (size_t i = 0; i < image->phdr_count; i++) {
        const Elf64_Phdr *ph = &image->phdrs[i];
        for (size_t k = 0; ph->p_type == PT_DYNAMIC && k < DYNAMIC_MAX; k++) {
            Elf64_Dyn dyn;
            if (!memory_read(image->memory, ph->p_vaddr + image->bias + k * sizeof dyn, &dyn,
                             sizeof dyn) ||
                dyn.d_tag == DT_NULL)
                break;
            if (dyn.d_tag == DT_RELA)
                *at = dyn.d_un.d_ptr >= image->base ? dyn.d_un.d_ptr : dyn.d_un.d_ptr + image->bias;
            if (dyn.d_tag == DT_RELASZ)
                *size = dyn.d_un.d_val;
        }
    }
    return *at && *size;
}

/* A relocation without a symbol is one of the module's own storage. */
static bool take_relocation(struct tls_block *block, const struct image *image,
                            const Elf64_Rela *rela, const struct tls_relocations *types)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
    uint64_t word;

    if (ELF64_R_SYM(rela->r_info) || (type != types->offset && type != types->module) ||
        !memory_read(image->memory, rela->r_offset + image->bias, &word, sizeof word))
        return false;
    if (type == types->offset) {
        block->distance = (int64_t)(word - (uint64_t)rela->r_addend);
        block->model = TLS_AT_DISTANCE;
        return block->distance < 0 && block->distance > -BLOCK_MAX;
    }
    block->number = word;
    block->model = TLS_BY_NUMBER;
    return word > 0 && word < NUMBER_MAX;
}

static bool read_relocations(struct tls_block *block, const struct image *image,
                             const struct tls_relocations *types)
{
    remote_addr at;
    uint64_t size;
    Elf64_Rela part[PART];

    if (!find_rela(image, &at, &size))
        return false;
    uint64_t count = size / sizeof *part;
    count = count < RELOCATIONS_MAX ? count : RELOCATIONS_MAX;
    for (uint64_t done = 0; done < count;) {
        size_t n = count - done < PART ? (size_t)(count - done) : PART;
        if (!memory_read(image->memory, at + done * sizeof *part, part, n * sizeof *part))
            return false;
        for (size_t i = 0; i < n; i++)
            if (take_relocation(block, image, &part[i], types))
                return true;
        done += n;
    }
    return false;
}

/* ---- the block ---- */

bool tls_find(struct tls_block *block, const struct module *module, struct memory *memory,
              const struct tls_relocations *types)
{
    const Elf64_Phdr *segment;
    struct image image;

    memset(block, 0, sizeof *block);
    if (!image_open(&image, memory, module->start) || !(segment = tls_segment(&image)))
        return false;
    block->size = segment->p_memsz;
    if (image_has_interpreter(&image) || image.header.e_type == ET_EXEC || image.pie) {
        /* The program's ends below the thread pointer, at the first place with its alignment. */
        uint64_t align = segment->p_align ? segment->p_align : 1, size = segment->p_memsz;
        size += (0 - size - segment->p_vaddr) & (align - 1);
        block->model = TLS_AT_DISTANCE;
        block->distance = -(int64_t)size;
        return true;
    }
    if (read_relocations(block, &image, types))
        return true;
    block->model = TLS_UNKNOWN;
    return false;
}

remote_addr tls_of_thread(const struct tls_block *block, remote_addr pointer, struct memory *memory)
{
    remote_addr words[3], address;
    unsigned char byte;

    if (!pointer || block->model == TLS_UNKNOWN)
        return 0;
    if (block->model == TLS_AT_DISTANCE)
        return pointer + (remote_addr)block->distance;
    if (!memory_read(memory, pointer, words, sizeof words))
        return 0;
    size_t entry = words[SELF_AGAIN / 8] == pointer ? DTV_GLIBC : DTV_MUSL;
    /* The entry of an unused block is not an address: glibc sets it to -1. */
    if (!memory_read(memory, words[DTV_AT / 8] + block->number * entry, &address, sizeof address) ||
        !address || address % 8 || !memory_read(memory, address, &byte, 1))
        return 0;
    return address;
}
