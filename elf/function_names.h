/*
 * The names of a module's functions, from any place that has them: the mapped
 * object itself, its file, a compressed part of its file, or a separate debug
 * file.
 */
#pragma once

#include "elf/image.h"
#include "elf/modules.h"
#include "elf/sections.h"

enum symbol_place {
    SYMBOLS_DYNSYM,    /* .dynsym, as it is mapped */
    SYMBOLS_SYMTAB,    /* .symtab of the module's file */
    SYMBOLS_MINIDEBUG, /* .symtab in its .gnu_debugdata */
    SYMBOLS_DEBUGFILE, /* .symtab of its separate debug file */
    SYMBOLS_PLACES
};

struct function_names {
    const struct module *module; /* these three are borrowed */
    const struct target *target;
    struct memory *memory;
    struct image image;
    int file; /* the module's file; -1: cannot be opened */
};

/*
 * False if no ELF object of this machine is mapped there. Call
 * function_names_close in either case.
 */
bool function_names_open(struct function_names *symbols, const struct module *module,
                         const struct target *target, struct memory *memory);
void function_names_close(struct function_names *symbols);

/*
 * Visits the defined functions of one place whose names match the query (NULL:
 * all), with run-time addresses, until visit returns false. False if the module
 * has no symbols there, or not all of them could be read.
 */
bool function_names_visit(const struct function_names *symbols, enum symbol_place place,
                          const struct name_query *names, symbol_visitor visit, void *ctx);

/*
 * Does the same for the first place other than .dynsym that has symbols, and
 * stores it in *place. .gnu_debugdata contains only the symbols that .dynsym
 * lacks, so in that case both are visited.
 */
bool function_names_visit_file(const struct function_names *symbols, const struct name_query *names,
                               symbol_visitor visit, void *ctx, enum symbol_place *place);
