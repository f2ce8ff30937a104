/*
 * The names of a module's functions, wherever they stand: in the mapped object
 * itself, in its file, packed in its file, or in a debug file of its own.
 */
#pragma once

#include "elf/image.h"
#include "elf/modules.h"
#include "elf/strtab.h"

enum symbol_place {
    SYMBOLS_DYNSYM,    /* .dynsym, as it is mapped */
    SYMBOLS_SYMTAB,    /* .symtab of the module's file */
    SYMBOLS_MINIDEBUG, /* .symtab within its .gnu_debugdata */
    SYMBOLS_DEBUGFILE, /* .symtab of its separate debug file */
    SYMBOLS_PLACES
};

struct function_names {
    const struct module *module; /* these three are borrowed */
    const struct target *target;
    struct memory *memory;
    struct image image;
    int file; /* the module's; -1: not to be had */
};

/* False if no ELF object of this machine is mapped there; function_names_close in any case. */
bool function_names_open(struct function_names *symbols, const struct module *module,
                         const struct target *target, struct memory *memory);
void function_names_close(struct function_names *symbols);

/*
 * Visits the defined functions at one place with the names that are looked for
 * (NULL: all), with addresses at run time, until visit returns false. False if the
 * module has no symbols there, or not all could be read.
 */
bool function_names_visit(const struct function_names *symbols, enum symbol_place place,
                          const struct name_query *names, symbol_visitor visit, void *ctx);

/*
 * The same at the first place but .dynsym where there are symbols; *place tells
 * which. The symbols of .gnu_debugdata are those that .dynsym lacks, so that
 * both are visited then.
 */
bool function_names_visit_file(const struct function_names *symbols, const struct name_query *names,
                               symbol_visitor visit, void *ctx, enum symbol_place *place);
