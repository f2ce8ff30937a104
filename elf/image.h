/*
 * One ELF object as it is mapped in the target's memory, and its file.
 *
 * The parts that the dynamic loader needs (program headers, .dynsym, .gnu.hash)
 * are always mapped. They are read from memory, so they are correct even if the
 * file has been replaced. All data read is untrusted: each offset and count is
 * bounded, and each read may fail.
 */
#pragma once

#include "attach/memory.h"

#include <elf.h>

enum { IMAGE_PHDRS_MAX = 64, BUILD_ID_MAX = 64, SYMBOL_NAME_MAX = 64 << 10 };

struct build_id {
    size_t len;
    unsigned char bytes[BUILD_ID_MAX];
};

enum { BUILD_ID_TEXT = 2 * BUILD_ID_MAX + 1 };

bool build_id_equal(const struct build_id *a, const struct build_id *b);
/* Writes it in hexadecimal digits. Returns out. */
const char *build_id_text(const struct build_id *id, char out[BUILD_ID_TEXT]);

struct image {
    struct memory *memory;
    remote_addr base; /* where the ELF header is mapped */
    uint64_t bias;    /* runtime address = st_value + bias, modulo 2^64 */
    Elf64_Ehdr header;
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    size_t phdr_count;
    remote_addr symtab, strtab; /* .dynsym, .dynstr; 0: none */
    uint64_t strtab_size;
    remote_addr gnu_hash, sysv_hash;
    bool needs_library; /* DT_NEEDED */
    bool pie;           /* DF_1_PIE: a program, not a library */
};

struct symbol {
    remote_addr address; /* run-time */
    uint64_t size;       /* bytes; 0: unknown */
    unsigned char type;  /* STT_* */
    bool local;          /* STB_LOCAL: a static function, or one that the linker hid */
    const char *file; /* local symbol of .symtab: name of the source file, valid during the visit;
                         or NULL */
};

/* True if it is the header of a 64-bit little-endian ELF file. */
bool elf_header_valid(const Elf64_Ehdr *header);

/* True if it is for the machine that the tool runs on. */
bool elf_machine_is_own(const Elf64_Ehdr *header);

/* False if there is no 64-bit ELF header of this machine at base, or it is malformed. */
bool image_open(struct image *image, struct memory *memory, remote_addr base);

bool image_has_interpreter(const struct image *image); /* PT_INTERP */

/*
 * True if the program contains its C library: it requests no dynamic loader and
 * no library (PT_INTERP, DT_NEEDED). It may still load libraries at run time,
 * and with them a second C library.
 */
bool image_is_static_program(const struct image *image);

/*
 * Visits the defined symbols of .dynsym with that name, until visit returns
 * false. Uses .gnu.hash, otherwise .hash. A name with versions has more than
 * one symbol.
 */
typedef bool (*symbol_visitor)(void *ctx, const char *name, const struct symbol *symbol);
void image_symbols_named(const struct image *image, const char *name, symbol_visitor visit,
                         void *ctx);

/* Returns the first of these symbols. False: none. */
bool image_symbol(const struct image *image, const char *name, struct symbol *out);

/* The NT_GNU_BUILD_ID note of the mapped object, of an open file, and in a block of notes. */
bool image_build_id(const struct image *image, struct build_id *out);
bool file_build_id(int fd, struct build_id *out);
bool notes_build_id(const unsigned char *notes, size_t len, struct build_id *out);

/*
 * Returns the bias for the addresses in another file of the same object.
 * prelink moves the addresses of a module (its p_vaddr), but not those of a
 * debug file that was split off earlier.
 */
uint64_t image_file_bias(const struct image *image, int fd);

/* Reads exactly len bytes at a file offset with pread(2); false if the file has fewer. */
bool file_read(int fd, uint64_t offset, void *buf, size_t len);

/*
 * Returns the size of a file, by lseek(2): fstat(3) may make a call that looks up paths
 * (newfstatat), which a confined child may not. 0: empty, or not seekable.
 */
uint64_t file_size(int fd);

/* Reads the program headers of a file. Returns their number; 0: not an ELF file of this machine. */
size_t file_phdrs(int fd, Elf64_Phdr phdrs[IMAGE_PHDRS_MAX]);

/*
 * Visits the defined function symbols of .dynsym whose names end in suffix,
 * until visit returns false.
 */
void image_symbols_ending(const struct image *image, const char *suffix, symbol_visitor visit,
                          void *ctx);
