/*
 * The section headers of an ELF file: what a linker and strip leave beside
 * the segments. Read with pread(2) in blocks; the table may lie anywhere and
 * name anything.
 */
#pragma once

#include "elf/image.h"

enum { SECTIONS_MAX = 1 << 20, SECTION_NAMES_READ = 1 << 10 };

struct sections {
    int fd; /* borrowed */
    uint64_t file_size;
    uint64_t offset, count; /* of the table: where it is; headers of it that are in the file */
    Elf64_Shdr names;       /* .shstrtab; sh_size 0: none */
    char first_names[SECTION_NAMES_READ]; /* its start: in most files all of it */
};

/*
 * False if fd is no 64-bit little-endian ELF file or has no section headers.
 * Counts and indices of more than 16 bits stand in section 0 (ELF, "extended
 * numbering").
 */
bool sections_open(struct sections *sections, int fd);

/* True if it lies in the file, with the size that it has now. SHT_NOBITS lies nowhere. */
bool section_in_file(const struct sections *sections, const Elf64_Shdr *section);

/* The section at an index; false if there is none. */
bool section_at(const struct sections *sections, uint64_t index, Elf64_Shdr *out);

/* The first section of a type, and of a name; false if there is none. */
bool section_of_type(const struct sections *sections, uint32_t type, Elf64_Shdr *out);
bool section_named(const struct sections *sections, const char *name, Elf64_Shdr *out);

/*
 * Bytes that the compressed sections of the file say they unpack to, by
 * SHF_COMPRESSED or by a name in .zdebug: to be asked before a library unpacks
 * them. UINT64_MAX: more than 2^63, or a header that cannot be read.
 */
uint64_t sections_unpacked_size(const struct sections *sections);
