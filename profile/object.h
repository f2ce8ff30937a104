/*
 * An ELF file in private memory: as large as the file, zeros where nothing was
 * needed yet, read block by block with pread(2). A file that is cut while it is
 * read cannot kill the tool with SIGBUS, as a mapped one would, and of a large
 * debug file only the parts that are used cost memory.
 */
#pragma once

#include "elf/image.h"

enum { OBJECT_BLOCK = 16 << 10 };
#define OBJECT_SIZE_MAX (64ull << 30) /* bytes of a file, most of which is never read */
#define OBJECT_READ_MAX (1ull << 30)  /* bytes that are read of it at most */

struct object {
    int fd;
    unsigned char *bytes;
    size_t size;
    unsigned char *present; /* one bit a block */
    uint64_t bytes_read;
    uint64_t *left; /* of what it and others may read together; NULL: no such limit */
    Elf64_Ehdr header;
    Elf64_Shdr *sections;
    size_t section_count;
    Elf64_Shdr names; /* .shstrtab */
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    size_t phdr_count;
};

/*
 * Takes the descriptor in any case. NULL: no 64-bit ELF file, malformed, or
 * out of memory. left, if it is not NULL, is taken from as it is read and given
 * back when it is released.
 */
struct object *object_open(int fd, uint64_t *left);
void object_free(struct object *object);

/* The len bytes at a file offset, which stay; NULL: the file has fewer, or beyond the limit. */
const void *object_bytes(struct object *object, uint64_t offset, uint64_t len);
/* The bytes of a section; NULL also for one without any (SHT_NOBITS) or an empty one. */
const void *object_section(struct object *object, const Elf64_Shdr *section);
/* The name of a section, or "". */
const char *object_section_name(struct object *object, const Elf64_Shdr *section);

/* The first section of a name that has bytes, or NULL. */
const Elf64_Shdr *object_section_named(struct object *object, const char *name);
/* The NT_GNU_BUILD_ID among the section's notes: a file of debug sections alone has no segments. */
bool object_build_id(struct object *object, struct build_id *out);
/* Gives back what was read from a file offset on, but for the blocks at the ends, of which others
 * have a part; until it is asked for again it is zeros. */
void object_release(struct object *object, uint64_t offset, uint64_t len);
/* Makes the section one without bytes for those who parse the copy. */
void object_hide_section(struct object *object, size_t index);

/* The link-time address of the code at a file offset; false: no executable segment holds it. */
bool object_code_address(const struct object *object, uint64_t offset, uint64_t *address);
