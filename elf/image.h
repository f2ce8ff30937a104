/*
 * One ELF object as it lies in the target's memory, and its file.
 *
 * What the dynamic loader needs (program headers, .dynsym, .gnu.hash) is
 * always mapped; read from there it is right whatever has become of the file.
 * Everything read is untrusted: each offset and count is bounded, each read
 * may fail.
 */
#pragma once

#include "attach/memory.h"

#include <elf.h>

enum { IMAGE_PHDRS_MAX = 64, BUILD_ID_MAX = 64, SYMBOL_NAME_MAX = 64 << 10 };

struct build_id {
    size_t len;
    unsigned char bytes[BUILD_ID_MAX];
};

struct image {
    struct memory *memory;
    remote_addr base; /* where the ELF header is mapped */
    uint64_t bias;    /* runtime address = st_value + bias, modulo 2^64 */
    Elf64_Ehdr header;
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    size_t phdr_count;
    remote_addr symtab, strtab; /* .dynsym, .dynstr; 0: it has none */
    uint64_t strtab_size;
    remote_addr gnu_hash, sysv_hash;
    bool needs_library; /* DT_NEEDED */
    bool pie;           /* DF_1_PIE: a program, not a library */
};

struct symbol {
    remote_addr address; /* runtime */
    uint64_t size;       /* bytes; 0: unknown */
    unsigned char type;  /* STT_* */
    bool local;          /* STB_LOCAL: a static function, or one that the linker hid */
    const char *file;    /* .symtab, local: the source file's name as long as the visit; or NULL */
};

/* False if there is no 64-bit ELF header of this machine at base, or it is malformed. */
bool image_open(struct image *image, struct memory *memory, remote_addr base);

/*
 * A program that brings its C library along: it asks for no dynamic loader and no
 * library (PT_INTERP, DT_NEEDED). It may load some at run time, and with them a
 * second C library.
 */
bool image_is_static_program(const struct image *image);

/*
 * Visits the defined symbols of .dynsym with that name, found through .gnu.hash, else through
 * .hash, until visit is false: there is more than one where the name has versions.
 */
typedef bool (*symbol_visitor)(void *ctx, const char *name, const struct symbol *symbol);
void image_symbols_named(const struct image *image, const char *name, symbol_visitor visit,
                         void *ctx);

/* The first of them. False: there is none. */
bool image_symbol(const struct image *image, const char *name, struct symbol *out);

/* The NT_GNU_BUILD_ID note of the mapped object, of an open file, and among notes. */
bool image_build_id(const struct image *image, struct build_id *out);
bool file_build_id(int fd, struct build_id *out);
bool notes_build_id(const unsigned char *notes, size_t len, struct build_id *out);

/*
 * The bias for the addresses in another file of the same object: prelink moves
 * those of a module (its p_vaddr), not those of a debug file that was split off
 * before.
 */
uint64_t image_file_bias(const struct image *image, int fd);

/* Reads exactly len bytes at a file offset with pread(2); false if the file has fewer. */
bool file_read(int fd, uint64_t offset, void *buf, size_t len);

/* Visits the defined function symbols of .dynsym whose name ends in suffix, until visit is false.
 */
void image_symbols_ending(const struct image *image, const char *suffix, symbol_visitor visit,
                          void *ctx);
