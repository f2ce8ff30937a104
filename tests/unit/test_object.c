/* An ELF file in private memory, also one that is cut or changed while it is read. */
#include "check.h"
#include "elf_file.h"
#include "profile/symbols/object.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

static struct elf_file made;

static struct object *open_made(int *fd)
{
    file_make(&made);
    *fd = file_put(&made, sizeof made);
    return object_open(fcntl(*fd, F_DUPFD_CLOEXEC, 0), NULL);
}

static void test_parts(void)
{
    int fd;
    struct object *object = open_made(&fd);
    struct build_id id;

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
    CHECK(object_section_named(object, ".symtab") == NULL && !object_build_id(object, &id));
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

/* Of a large file only the requested parts are read; parts read before the cut stay. */
static void test_cut(void)
{
    enum { LARGE = 64 << 20 };
    struct object *object;
    int fd;

    file_make(&made);
    fd = file_put(&made, sizeof made);
    CHECK(ftruncate(fd, LARGE) == 0 && pwrite(fd, "far", 3, LARGE - 3) == 3);
    object = object_open(fcntl(fd, F_DUPFD_CLOEXEC, 0), NULL);
    if (!CHECK(object != NULL))
        return;
    CHECK(object->bytes_read <= 4 * OBJECT_BLOCK);
    const char *far = object_bytes(object, LARGE - 3, 3);
    CHECK(far && memcmp(far, "far", 3) == 0 && object->bytes_read <= 5 * OBJECT_BLOCK);
    CHECK(ftruncate(fd, sizeof made) == 0);
    CHECK(far && memcmp(far, "far", 3) == 0);
    CHECK(object_bytes(object, LARGE / 2, 8) == NULL);
    object_free(object);
    close(fd);
}

/* A sparse file costs nothing but a name; reading all of it would cost memory. */
static void test_limit(void)
{
    struct object *object;
    int fd;

    file_make(&made);
    fd = file_put(&made, sizeof made);
    CHECK(ftruncate(fd, (off_t)OBJECT_READ_MAX * 4) == 0);
    object = object_open(fcntl(fd, F_DUPFD_CLOEXEC, 0), NULL);
    if (!CHECK(object != NULL))
        return;
    object->bytes_read = OBJECT_READ_MAX - OBJECT_BLOCK;
    CHECK(object_bytes(object, OBJECT_READ_MAX, OBJECT_BLOCK) != NULL);
    CHECK(object_bytes(object, OBJECT_READ_MAX * 2, OBJECT_BLOCK) == NULL);
    object_free(object);
    close(fd);
}

/* The limit for several of them together. */
static void test_common_limit(void)
{
    enum { SIZE = 64 * OBJECT_BLOCK };
    uint64_t left = SIZE;
    struct object *first, *second;
    int fd;

    file_make(&made);
    fd = file_put(&made, sizeof made);
    CHECK(ftruncate(fd, SIZE) == 0);
    first = object_open(fcntl(fd, F_DUPFD_CLOEXEC, 0), &left);
    second = object_open(fcntl(fd, F_DUPFD_CLOEXEC, 0), &left);
    if (!CHECK(first && second))
        return;
    CHECK(left == SIZE - first->bytes_read - second->bytes_read && left < SIZE);
    CHECK(object_bytes(first, 0, SIZE) == NULL); /* not all, and then nothing of it */
    CHECK(object_bytes(first, 0, SIZE / 2) != NULL);
    CHECK(object_bytes(second, 0, SIZE) == NULL);
    CHECK(left == SIZE - first->bytes_read - second->bytes_read);
    object_release(first, 0, SIZE / 2);
    CHECK(left == SIZE - second->bytes_read);
    object_free(first);
    CHECK(object_bytes(second, 0, SIZE) != NULL && left == 0);
    object_free(second);
    CHECK(left == SIZE);
    close(fd);
}

/* Whole blocks are released, and zero until they are read again; those at the ends stay. */
static void test_release(void)
{
    enum { BLOCKS = 8, SIZE = BLOCKS * OBJECT_BLOCK };
    struct object *object;
    int fd;

    file_make(&made);
    fd = file_put(&made, sizeof made);
    CHECK(ftruncate(fd, SIZE) == 0);
    for (off_t i = 1; i < BLOCKS; i++)
        CHECK(pwrite(fd, "block", 5, i * OBJECT_BLOCK) == 5);
    object = object_open(fcntl(fd, F_DUPFD_CLOEXEC, 0), NULL);
    if (!CHECK(object != NULL))
        return;
    const char *bytes = object_bytes(object, 0, SIZE);
    CHECK(bytes && object->bytes_read == SIZE);
    object_release(object, OBJECT_BLOCK + 1, 3 * OBJECT_BLOCK);
    CHECK(object->bytes_read == SIZE - 2 * OBJECT_BLOCK);
    CHECK(bytes[OBJECT_BLOCK] == 'b' && bytes[2 * OBJECT_BLOCK] == 0 &&
          bytes[3 * OBJECT_BLOCK] == 0 && bytes[4 * OBJECT_BLOCK] == 'b');
    object_release(object, 2 * OBJECT_BLOCK, 2 * OBJECT_BLOCK); /* again */
    object_release(object, 5 * OBJECT_BLOCK, OBJECT_BLOCK - 1);
    object_release(object, SIZE - 1, 2);
    object_release(object, UINT64_MAX, UINT64_MAX);
    CHECK(object->bytes_read == SIZE - 2 * OBJECT_BLOCK);
    CHECK(object_bytes(object, 3 * OBJECT_BLOCK, 5) && bytes[3 * OBJECT_BLOCK] == 'b');
    object_free(object);
    close(fd);
}

static void test_no_elf(void)
{
    static const char text[256] = "not an ELF file";
    int pipes[2];

    CHECK(object_open(file_put(text, sizeof text), NULL) == NULL);
    CHECK(object_open(file_put(text, 0), NULL) == NULL);
    file_make(&made);
    CHECK(object_open(file_put(&made, sizeof made.header - 1), NULL) == NULL);
    made.header.e_ident[EI_CLASS] = ELFCLASS32;
    CHECK(object_open(file_put(&made, sizeof made), NULL) == NULL);
    file_make(&made);
    made.header.e_phnum = 0xffff;
    CHECK(object_open(file_put(&made, sizeof made), NULL) == NULL);
    CHECK(pipe(pipes) == 0 && object_open(pipes[0], NULL) == NULL && close(pipes[1]) == 0);
}

int main(void)
{
    test_parts();
    test_code_address();
    test_cut();
    test_limit();
    test_common_limit();
    test_release();
    test_no_elf();
    return check_result();
}
