/*
 * The .symtab of an ELF file: the names that a linker left and strip removes.
 *
 * Read with pread(2), never mapped: a file that is cut while it is read must
 * not kill the tool with SIGBUS.
 */
#pragma once

#include "elf/image.h"

enum { SYMTAB_STRINGS_MAX = 512 << 20 }; /* bytes of .strtab that are read at most */

/*
 * Visits the defined function symbols whose name contains part, until visit
 * returns false. bias is added to each st_value. False if the file has no
 * readable .symtab.
 */
bool symtab_visit(int fd, uint64_t bias, const char *part, symbol_visitor visit, void *ctx);

/* The same of the defined data symbols. */
bool symtab_visit_objects(int fd, uint64_t bias, const char *part, symbol_visitor visit, void *ctx);
