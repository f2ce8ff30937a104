/*
 * The .symtab of an ELF file: the names that a linker keeps and strip removes.
 *
 * Read with pread(2) in blocks, never mapped: if a file is truncated while it
 * is read, a mapping would kill the tool with SIGBUS. A file of gigabytes needs
 * no more memory than a small one.
 */
#pragma once

#include "elf/strtab.h"

enum { SYMTAB_SYMBOLS_MAX = 32 << 20 }; /* a larger table is refused */

/*
 * Visits the defined function symbols whose names match the query (NULL: all),
 * until visit returns false. bias is added to each st_value. With a query,
 * searches .strtab first and reads .symtab only if a name is found, because
 * reading the names of a million symbols one by one would be random access.
 * False if the file has no .symtab, or one that could not be read to its end.
 */
bool symtab_visit(int fd, uint64_t bias, const struct name_query *names, symbol_visitor visit,
                  void *ctx);

/* Does the same for the defined functions and data; symbol->type is the type. */
bool symtab_visit_all(int fd, uint64_t bias, const struct name_query *names, symbol_visitor visit,
                      void *ctx);

/* Visits the defined functions and data of .dynsym, which strip keeps. */
bool symtab_visit_dynamic(int fd, uint64_t bias, symbol_visitor visit, void *ctx);
