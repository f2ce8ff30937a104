/*
 * An ELF file in private memory: as large as the file, zeros where no data was
 * needed yet, read block by block with pread(2). If the file is truncated while
 * it is read, a mapping would kill the tool with SIGBUS; this cannot. Of a
 * large debug file only the used parts use memory.
 */
#pragma once

#include "elf/image.h"

enum { OBJECT_BLOCK = 16 << 10 };
#define OBJECT_SIZE_MAX (64ull << 30) /* bytes of a file, most of which is never read */
#define OBJECT_READ_MAX (1ull << 30)  /* maximum bytes of it that are read */

struct object {
    int fd;
    unsigned char *bytes;
    size_t size;
    unsigned char *present; /* one bit per block */
    uint64_t bytes_read;
    uint64_t *left; /* bytes that it and others may read together; NULL: no such limit */
    Elf64_Ehdr header;
    Elf64_Shdr *sections;
    size_t section_count;
    Elf64_Shdr names; /* .shstrtab */
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    size_t phdr_count;
};

/*
 * Takes ownership of the file descriptor in any case. NULL: not a 64-bit ELF
 * file, malformed, or out of memory. left, if not NULL, is decreased by the
 * bytes read and increased when they are released.
 */
struct object *object_open(int fd, uint64_t *left);
void object_free(struct object *object);

/*
 * Returns the len bytes at a file offset, which stay valid. NULL: the file has
 * fewer, or a limit is exceeded.
 */
const void *object_bytes(struct object *object, uint64_t offset, uint64_t len);
/* Returns the bytes of a section; NULL also for SHT_NOBITS or an empty one. */
const void *object_section(struct object *object, const Elf64_Shdr *section);
/* Returns the name of a section, or "". */
const char *object_section_name(struct object *object, const Elf64_Shdr *section);

/* Returns the first section with a name that has bytes, or NULL. */
const Elf64_Shdr *object_section_named(struct object *object, const char *name);
/*
 * Finds the NT_GNU_BUILD_ID in the section's notes: a file with only debug
 * sections has no segments.
 */
bool object_build_id(struct object *object, struct build_id *out);
/*
 * Releases len bytes from a file offset on, except the blocks at both ends,
 * which contain other data; until they are read again they are zeros.
 */
void object_release(struct object *object, uint64_t offset, uint64_t len);
/* Makes a section one without bytes for code that parses the copy. */
void object_hide_section(struct object *object, size_t index);
/* Replaces a section's header for such code. */
void object_change_section(struct object *object, size_t index, const Elf64_Shdr *section);

/*
 * Finds the link-time address of the code at a file offset. False: no
 * executable segment contains it.
 */
bool object_code_address(const struct object *object, uint64_t offset, uint64_t *address);
