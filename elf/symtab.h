/*
 * The .symtab of an ELF file: the names that a linker left and strip removes.
 *
 * Read with pread(2) in blocks, never mapped: a file that is cut while it is
 * read must not kill the tool with SIGBUS, and one of gigabytes costs it no
 * more memory than a small one.
 */
#pragma once

#include "elf/image.h"

enum { SYMTAB_SYMBOLS_MAX = 32 << 20 }; /* a table with more is refused */

/*
 * Visits the defined function symbols whose name contains part ("": all), until
 * visit returns false. bias is added to each st_value. Where part is not empty,
 * .strtab is searched for it first, and .symtab only read if it is there. False
 * if the file has no .symtab, or one that could not be read to its end.
 */
bool symtab_visit(int fd, uint64_t bias, const char *part, symbol_visitor visit, void *ctx);

/* The same of the defined data symbols. */
bool symtab_visit_objects(int fd, uint64_t bias, const char *part, symbol_visitor visit, void *ctx);
