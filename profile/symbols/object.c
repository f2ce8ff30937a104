#include "profile/symbols/object.h"
#include "base/util.h"
#include "elf/sections.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

const void *object_bytes(const struct object *object, uint64_t offset, uint64_t len)
{
    if (len == 0 || offset >= object->size || len > object->size - offset)
        return NULL;
    return object->bytes + offset;
}

/* Page faults between two trims. Each maps 64 KiB of a file, where the kernel has not changed that
 * (fault_around_bytes). */
enum { FAULTS_MAX = 512, TRIM_NS = 200000, HOLES_MAX = 4096 };

static struct object *all_objects;

/* Drops the whole pages between two offsets. */
static void drop_pages(const struct object *object, uint64_t from, uint64_t to)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t first = (from + page - 1) / page * page, end = to / page * page;

    if (first < end)
        (void)madvise(object->bytes + first, end - first, MADV_DONTNEED);
}

void objects_trim(void)
{
    static uint64_t looked_at;
    static long trimmed;
    struct rusage use;

    /* An address takes a microsecond, and so does a system call. */
    if (clock_now() - looked_at < TRIM_NS)
        return;
    looked_at = clock_now();
    if (getrusage(RUSAGE_SELF, &use) || use.ru_minflt + use.ru_majflt - trimmed < FAULTS_MAX)
        return;
    trimmed = use.ru_minflt + use.ru_majflt;
    for (const struct object *object = all_objects; object; object = object->next) {
        /* The section headers may have been changed. */
        const uint64_t headers = object->header.e_shoff;
        drop_pages(object, 0, headers);
        drop_pages(object, headers + object->section_count * sizeof(Elf64_Shdr), object->size);
    }
}

const void *object_section(const struct object *object, const Elf64_Shdr *section)
{
    if (section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL)
        return NULL;
    return object_bytes(object, section->sh_offset, section->sh_size);
}

static bool sections_load(struct object *object, int fd)
{
    struct sections sections;

    if (!sections_open(&sections, fd))
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

/*
 * A hole that is touched is allocated by tmpfs (mm/shmem.c, shmem_fault), charged to this process,
 * and stays: zeros are mapped in its place. False: there are too many.
 */
static bool cover_holes(const struct object *object, int fd)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    off_t start, end = 0;

    for (size_t i = 0; i < HOLES_MAX; i++) {
        start = lseek(fd, end, SEEK_HOLE);
        if (start < 0 || (uint64_t)start >= object->size)
            return true;
        end = lseek(fd, start, SEEK_DATA);
        if (end < start) /* none behind it */
            end = (off_t)object->size;
        const uint64_t first = ((uint64_t)start + page - 1) / page * page;
        if ((uint64_t)end > first && mmap(object->bytes + first, (uint64_t)end - first, PROT_READ,
                                          flags, -1, 0) == MAP_FAILED)
            return false;
    }
    return false;
}

static bool object_load(struct object *object, int fd)
{
    const void *header;

    object->size = file_size(fd);
    if (object->size < sizeof(Elf64_Ehdr) || object->size > OBJECT_SIZE_MAX)
        return false;
    object->bytes = mmap(NULL, object->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (object->bytes == MAP_FAILED)
        object->bytes = NULL;
    header = object->bytes ? object_bytes(object, 0, sizeof object->header) : NULL;
    if (!header || !cover_holes(object, fd))
        return false;
    memcpy(&object->header, header, sizeof object->header);
    return elf_header_valid(&object->header) && phdrs_load(object) && sections_load(object, fd);
}

struct object *object_open(int fd)
{
    struct object *object = calloc(1, sizeof *object);
    bool good = object && object_load(object, fd);

    close(fd);
    if (!good) {
        object_free(object);
        return NULL;
    }
    object->next = all_objects;
    all_objects = object;
    return object;
}

void object_free(struct object *object)
{
    if (!object)
        return;
    for (struct object **at = &all_objects; *at; at = &(*at)->next)
        if (*at == object) {
            *at = object->next;
            break;
        }
    if (object->bytes)
        munmap(object->bytes, object->size);
    free(object->sections);
    free(object);
}

const char *object_section_name(const struct object *object, const Elf64_Shdr *section)
{
    const char *names = object_section(object, &object->names);

    if (!names || section->sh_name >= object->names.sh_size ||
        names[object->names.sh_size - 1] != '\0')
        return "";
    return names + section->sh_name;
}

const Elf64_Shdr *object_section_named(const struct object *object, const char *name)
{
    for (size_t i = 0; i < object->section_count; i++) {
        const Elf64_Shdr *section = &object->sections[i];
        if (section->sh_type != SHT_NOBITS && section->sh_size &&
            strcmp(object_section_name(object, section), name) == 0)
            return section;
    }
    return NULL;
}

/* The page becomes one of the tool's own. */
static void change_bytes(struct object *object, uint64_t at, const void *bytes, size_t len)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = at / page * page;

    if (object_bytes(object, at, len) &&
        mprotect(object->bytes + first, at + len - first, PROT_READ | PROT_WRITE) == 0)
        memcpy(object->bytes + at, bytes, len);
}

void object_hide_section(struct object *object, size_t index)
{
    const uint64_t at = object->header.e_shoff + index * sizeof(Elf64_Shdr);
    const uint32_t none = SHT_NOBITS;

    change_bytes(object, at + offsetof(Elf64_Shdr, sh_type), &none, sizeof none);
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
