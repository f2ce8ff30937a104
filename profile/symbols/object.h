/*
 * An ELF file, mapped. If it is truncated while it is read, the reader ends by SIGBUS; so only the
 * confined child opens one (profile/symbols/child.h).
 */
#pragma once

#include "elf/image.h"

#define OBJECT_SIZE_MAX (64ull << 30) /* bytes of a file, most of which is never read */

struct object {
    unsigned char *bytes;
    size_t size;
    Elf64_Ehdr header;
    Elf64_Shdr *sections;
    size_t section_count;
    Elf64_Shdr names; /* .shstrtab */
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    size_t phdr_count;
    struct object *next; /* of those that are open */
};

/*
 * Takes ownership of the file descriptor in any case. NULL: not a 64-bit ELF file, malformed, or
 * out of memory.
 */
struct object *object_open(int fd);
void object_free(struct object *object);

/* Returns the len bytes at a file offset, as long as the object. NULL: the file has fewer. */
const void *object_bytes(const struct object *object, uint64_t offset, uint64_t len);
/* Returns the bytes of a section; NULL also for SHT_NOBITS or an empty one. */
const void *object_section(const struct object *object, const Elf64_Shdr *section);
/* Returns the name of a section, or "". */
const char *object_section_name(const struct object *object, const Elf64_Shdr *section);

/* Returns the first section with a name that has bytes, or NULL. */
const Elf64_Shdr *object_section_named(const struct object *object, const char *name);
/*
 * Gives the memory of all open objects back if many of their pages have been read. They stay valid:
 * what is read again comes from the files again. Called between two pieces of work, so that a file
 * of any size needs little memory.
 */
void objects_trim(void);
/* Makes a section one without bytes for code that parses the copy. */
void object_hide_section(struct object *object, size_t index);

/*
 * Finds the link-time address of the code at a file offset. False: no
 * executable segment contains it.
 */
bool object_code_address(const struct object *object, uint64_t offset, uint64_t *address);
