/*
 * The .symtab of an ELF file: the names that a linker left and strip removes.
 *
 * Read with pread(2) in blocks, never mapped: a file that is cut while it is
 * read must not kill the tool with SIGBUS, and one of gigabytes costs it no
 * more memory than a small one.
 */
#pragma once

#include "elf/strtab.h"

enum { SYMTAB_SYMBOLS_MAX = 32 << 20 }; /* a table with more is refused */

/*
 * Visits the defined function symbols with the names that are looked for (NULL:
 * all), until visit returns false. bias is added to each st_value. For some
 * names .strtab is searched first, and .symtab only read if they are there:
 * names of a million symbols are read at random otherwise.
 * False if the file has no .symtab, or one that could not be read to its end.
 */
bool symtab_visit(int fd, uint64_t bias, const struct name_query *names, symbol_visitor visit,
                  void *ctx);

/* The same of the defined functions and data: symbol->type tells which. */
bool symtab_visit_all(int fd, uint64_t bias, const struct name_query *names, symbol_visitor visit,
                      void *ctx);
