#include "profile/symbols/object.h"
#include "elf/sections.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static bool block_read(struct object *object, uint64_t block)
{
    uint64_t offset = block * OBJECT_BLOCK;
    size_t len = object->size - offset < OBJECT_BLOCK ? object->size - offset : OBJECT_BLOCK;

    if (object->present[block / 8] >> (block % 8) & 1)
        return true;
    if (object->bytes_read + len > OBJECT_READ_MAX || (object->left && len > *object->left) ||
        !file_read(object->fd, offset, object->bytes + offset, len))
        return false;
    object->bytes_read += len;
    if (object->left)
        *object->left -= len;
    object->present[block / 8] |= (unsigned char)(1u << (block % 8));
    return true;
}

const void *object_bytes(struct object *object, uint64_t offset, uint64_t len)
{
    if (len == 0 || offset >= object->size || len > object->size - offset)
        return NULL;
    if (object->left && len > *object->left + object->bytes_read) /* do not even start */
        return NULL;
    for (uint64_t block = offset / OBJECT_BLOCK; block <= (offset + len - 1) / OBJECT_BLOCK;
         block++)
        if (!block_read(object, block))
            return NULL;
    return object->bytes + offset;
}

static void return_budget(struct object *object, uint64_t len)
{
    object->bytes_read -= len;
    if (object->left)
        *object->left += len;
}

void object_release(struct object *object, uint64_t offset, uint64_t len)
{
    uint64_t first, end;

    if (offset >= object->size || len > object->size - offset)
        return;
    first = (offset + OBJECT_BLOCK - 1) / OBJECT_BLOCK;
    end = (offset + len) / OBJECT_BLOCK;
    if (first >= end || madvise(object->bytes + first * OBJECT_BLOCK, (end - first) * OBJECT_BLOCK,
                                MADV_DONTNEED) != 0)
        return;
    for (uint64_t block = first; block < end; block++) {
        if (object->present[block / 8] >> (block % 8) & 1)
            return_budget(object, OBJECT_BLOCK);
        object->present[block / 8] &= (unsigned char)~(1u << (block % 8));
    }
}

const void *object_section(struct object *object, const Elf64_Shdr *section)
{
    if (section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL)
        return NULL;
    return object_bytes(object, section->sh_offset, section->sh_size);
}

static bool sections_load(struct object *object)
{
    struct sections sections;

    if (!sections_open(&sections, object->fd))
        return true;
    object->sections = calloc(sections.count + 1, sizeof *object->sections);
    if (!object->sections)
        return false;
    while (object->section_count < sections.count &&
           section_at(&sections, object->section_count, &object->sections[object->section_count]))
        object->section_count++;
    object->names = sections.names;
    return true;
}

static bool phdrs_load(struct object *object)
{
    const Elf64_Ehdr *header = &object->header;
    size_t len = header->e_phnum * sizeof(Elf64_Phdr);
    const void *bytes;

    if (!header->e_phnum)
        return true;
    bytes = object_bytes(object, header->e_phoff, len);
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > IMAGE_PHDRS_MAX || !bytes)
        return false;
    memcpy(object->phdrs, bytes, len);
    object->phdr_count = header->e_phnum;
    return true;
}

static bool object_load(struct object *object)
{
    struct stat st;
    const void *header;

    if (fstat(object->fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr) ||
        (uint64_t)st.st_size > OBJECT_SIZE_MAX)
        return false;
    object->size = (size_t)st.st_size;
    object->present = calloc(object->size / OBJECT_BLOCK / 8 + 1, 1);
    object->bytes = mmap(NULL, object->size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (object->bytes == MAP_FAILED)
        object->bytes = NULL;
    if (!object->present || !object->bytes)
        return false;
    header = object_bytes(object, 0, sizeof object->header);
    if (!header)
        return false;
    memcpy(&object->header, header, sizeof object->header);
    return elf_header_valid(&object->header) && phdrs_load(object) && sections_load(object);
}

struct object *object_open(int fd, uint64_t *left)
{
    struct object *object = calloc(1, sizeof *object);

    if (!object) {
        close(fd);
        return NULL;
    }
    object->fd = fd;
    object->left = left;
    if (object_load(object))
        return object;
    object_free(object);
    return NULL;
}

void object_free(struct object *object)
{
    if (!object)
        return;
    return_budget(object, object->bytes_read);
    if (object->bytes)
        munmap(object->bytes, object->size);
    close(object->fd);
    free(object->present);
    free(object->sections);
    free(object);
}

const char *object_section_name(struct object *object, const Elf64_Shdr *section)
{
    const char *names = object_section(object, &object->names);

    if (!names || section->sh_name >= object->names.sh_size ||
        names[object->names.sh_size - 1] != '\0')
        return "";
    return names + section->sh_name;
}

const Elf64_Shdr *object_section_named(struct object *object, const char *name)
{
    for (size_t i = 0; i < object->section_count; i++) {
        const Elf64_Shdr *section = &object->sections[i];
        if (section->sh_type != SHT_NOBITS && section->sh_size &&
            strcmp(object_section_name(object, section), name) == 0)
            return section;
    }
    return NULL;
}

bool object_build_id(struct object *object, struct build_id *out)
{
    for (size_t i = 0; i < object->section_count; i++) {
        const Elf64_Shdr *section = &object->sections[i];
        const void *notes = section->sh_type == SHT_NOTE ? object_section(object, section) : NULL;
        if (notes && notes_build_id(notes, section->sh_size, out))
            return true;
    }
    return false;
}

void object_hide_section(struct object *object, size_t index)
{
    uint64_t at = object->header.e_shoff + index * sizeof(Elf64_Shdr);
    const uint32_t none = SHT_NOBITS;

    if (object_bytes(object, at, sizeof(Elf64_Shdr)))
        memcpy(object->bytes + at + offsetof(Elf64_Shdr, sh_type), &none, sizeof none);
}

void object_change_section(struct object *object, size_t index, const Elf64_Shdr *section)
{
    uint64_t at = object->header.e_shoff + index * sizeof *section;

    if (object_bytes(object, at, sizeof *section))
        memcpy(object->bytes + at, section, sizeof *section);
}

bool object_code_address(const struct object *object, uint64_t offset, uint64_t *address)
{
    for (size_t i = 0; i < object->phdr_count; i++) {
        const Elf64_Phdr *ph = &object->phdrs[i];
        if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X) || offset < ph->p_offset ||
            offset - ph->p_offset >= ph->p_filesz)
            continue;
        *address = offset - ph->p_offset + ph->p_vaddr;
        return true;
    }
    return false;
}
