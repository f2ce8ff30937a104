/*
 * The section headers of an ELF file, which linkers and strip keep in addition
 * to the segments. Read with pread(2) in blocks. The table is untrusted: it may
 * be anywhere and name anything.
 */
#pragma once

#include "elf/image.h"

enum { SECTIONS_MAX = 1 << 20, SECTION_NAMES_READ = 1 << 10 };

struct sections {
    int fd; /* borrowed */
    uint64_t file_size;
    uint64_t offset,
        count;        /* of the table: its position; the number of headers that are in the file */
    Elf64_Shdr names; /* .shstrtab; sh_size 0: none */
    char first_names[SECTION_NAMES_READ]; /* the start of .shstrtab: in most files all of it */
};

/*
 * False if fd is not a 64-bit little-endian ELF file or has no section headers.
 * Counts and indices of more than 16 bits are in section 0 (ELF, "extended
 * numbering").
 */
bool sections_open(struct sections *sections, int fd);

/* True if the section is within the file at its present size. SHT_NOBITS is never in the file. */
bool section_in_file(const struct sections *sections, const Elf64_Shdr *section);

/* Reads the section at an index; false if there is none. */
bool section_at(const struct sections *sections, uint64_t index, Elf64_Shdr *out);

/* Find the first section of a type, and of a name; false if there is none. */
bool section_of_type(const struct sections *sections, uint32_t type, Elf64_Shdr *out);
bool section_named(const struct sections *sections, const char *name, Elf64_Shdr *out);
