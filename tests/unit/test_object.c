/* A mapped ELF file, whose headers are changed in memory only. */
#include "check.h"
#include "elf_file.h"
#include "profile/symbols/object.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static struct elf_file made;

static struct object *open_made(int *fd)
{
    file_make(&made);
    *fd = file_put(&made, sizeof made);
    return object_open(fcntl(*fd, F_DUPFD_CLOEXEC, 0));
}

static void test_parts(void)
{
    int fd;
    struct object *object = open_made(&fd);

    if (!CHECK(object != NULL))
        return;
    CHECK(object->section_count == FILE_SECTIONS && object->phdr_count == 2);
    CHECK(object_section(object, &object->sections[1]) == NULL); /* beyond the file */
    const char *strings = object_section(object, &object->sections[3]);
    CHECK(strings && memcmp(strings, file_strings, sizeof file_strings) == 0);
    CHECK(object_bytes(object, 0, sizeof made) != NULL);
    CHECK(object_bytes(object, 0, sizeof made + 1) == NULL && object_bytes(object, 1, 0) == NULL);
    CHECK(object_bytes(object, UINT64_MAX, 2) == NULL &&
          object_bytes(object, 2, UINT64_MAX) == NULL);
    CHECK(*object_section_name(object, &object->sections[2]) == '\0'); /* it has no .shstrtab */
    CHECK(object_section_named(object, ".symtab") == NULL);
    object_free(object);
    close(fd);
}

static void test_code_address(void)
{
    int fd;
    struct object *object = open_made(&fd);
    uint64_t address;

    if (!CHECK(object != NULL))
        return;
    CHECK(!object_code_address(object, 0, &address)); /* no executable segment */
    object->phdrs[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x2000};
    object->phdrs[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                                    .p_flags = PF_R | PF_X,
                                    .p_offset = 0x1234,
                                    .p_vaddr = 0x5234,
                                    .p_filesz = 0x100};
    CHECK(!object_code_address(object, 0x1233, &address));
    CHECK(object_code_address(object, 0x1234, &address) && address == 0x5234);
    CHECK(object_code_address(object, 0x1333, &address) && address == 0x5333);
    CHECK(!object_code_address(object, 0x1334, &address));
    object_free(object);
    close(fd);
}

/* The file stays as it is. */
static void test_change(void)
{
    int fd;
    struct object *object = open_made(&fd);
    Elf64_Shdr other, before;
    const uint64_t at = made.header.e_shoff + 3 * sizeof other;

    if (!CHECK(object != NULL))
        return;
    other = before = object->sections[3];
    object_hide_section(object, 3);
    other.sh_type = SHT_NOBITS;
    CHECK(memcmp(object_bytes(object, at, sizeof other), &other, sizeof other) == 0);
    CHECK(object->sections[3].sh_size == before.sh_size);
    CHECK(pread(fd, &other, sizeof other, (off_t)at) == sizeof other &&
          memcmp(&other, &before, sizeof other) == 0);
    object_free(object);
    close(fd);
}

/* Of a sparse file nothing is read that is not asked for. */
static void test_large(void)
{
    struct object *object;
    struct stat before, after;
    int fd;

    file_make(&made);
    fd = file_put(&made, sizeof made);
    CHECK(ftruncate(fd, 4ll << 30) == 0 && pwrite(fd, "far", 3, (4ll << 30) - 3) == 3);
    object = object_open(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!CHECK(object != NULL))
        return;
    CHECK(memcmp(object_bytes(object, (4ll << 30) - 3, 3), "far", 3) == 0);
    CHECK(fstat(fd, &before) == 0);
    for (uint64_t at = sizeof made; at < 64 << 20; at += 4096) /* of the hole, which stays one */
        CHECK(*(const unsigned char *)object_bytes(object, at, 1) == 0);
    CHECK(fstat(fd, &after) == 0 && after.st_blocks == before.st_blocks);
    CHECK(object_bytes(object, 4ll << 30, 1) == NULL);
    object_free(object);
    close(fd);
}

static uint64_t resident(void)
{
    unsigned long long size, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    CHECK(file && fscanf(file, "%llu %llu", &size, &pages) == 2);
    if (file)
        fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Adds up a byte of each page, and trims after each MiB. */
static unsigned read_pages(const struct object *object, uint64_t size, bool trims)
{
    unsigned sum = 0;

    for (uint64_t at = 0; at < size; at += 4096) {
        sum += *(const unsigned char *)object_bytes(object, at, 1);
        if (trims && at % (1 << 20) == 0)
            objects_trim();
    }
    return sum;
}

/* What has been read is given back, but not what was changed. */
static void test_trim(void)
{
    enum { SIZE = 256 << 20 };
    struct object *object, *other;
    const uint64_t before = resident();
    int fd, other_fd;

    other = open_made(&other_fd);
    file_make(&made);
    fd = file_put(&made, sizeof made);
    for (size_t at = sizeof made; at < SIZE; at += sizeof made) /* no hole */
        CHECK(pwrite(fd, &made, sizeof made, (off_t)at) == sizeof made);
    object = object_open(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!CHECK(object && other))
        return;
    object_hide_section(object, 3);
    const unsigned sum = read_pages(object, SIZE, false);
    CHECK(resident() - before >= SIZE);
    CHECK(read_pages(object, SIZE, true) == sum);
    objects_trim();
    object_free(other);
    CHECK(read_pages(object, SIZE, true) == sum && resident() - before < SIZE * 3 / 4);
    const Elf64_Shdr *section =
        object_bytes(object, made.header.e_shoff + 3 * sizeof *section, sizeof *section);
    CHECK(section && section->sh_type == SHT_NOBITS);
    object_free(object);
    close(fd);
    close(other_fd);
}

static void test_no_elf(void)
{
    static const char text[256] = "not an ELF file";
    int pipes[2];

    CHECK(object_open(file_put(text, sizeof text)) == NULL);
    CHECK(object_open(file_put(text, 0)) == NULL);
    file_make(&made);
    CHECK(object_open(file_put(&made, sizeof made.header - 1)) == NULL);
    made.header.e_ident[EI_CLASS] = ELFCLASS32;
    CHECK(object_open(file_put(&made, sizeof made)) == NULL);
    file_make(&made);
    made.header.e_phnum = 0xffff;
    CHECK(object_open(file_put(&made, sizeof made)) == NULL);
    CHECK(pipe(pipes) == 0 && object_open(pipes[0]) == NULL && close(pipes[1]) == 0);
}

int main(void)
{
    test_parts();
    test_code_address();
    test_change();
    test_large();
    test_trim();
    test_no_elf();
    return check_result();
}
