/*
 * libdw and libelf of elfutils, loaded when a report first needs them: if they
 * were linked, they and their dependencies would slow down the start of every
 * command.
 */
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>

#define LIBDW_FUNCTIONS(X)                                                                         \
    X(elf_version)                                                                                 \
    X(elf_memory)                                                                                  \
    X(elf_end)                                                                                     \
    X(elf_getscn)                                                                                  \
    X(elf_getdata)                                                                                 \
    X(dwarf_begin_elf)                                                                             \
    X(dwarf_end)                                                                                   \
    X(dwarf_setalt)                                                                                \
    X(dwarf_nextcu)                                                                                \
    X(dwarf_offdie)                                                                                \
    X(dwarf_tag)                                                                                   \
    X(dwarf_haschildren)                                                                           \
    X(dwarf_child)                                                                                 \
    X(dwarf_siblingof)                                                                             \
    X(dwarf_ranges)                                                                                \
    X(dwarf_attr)                                                                                  \
    X(dwarf_whatform)                                                                              \
    X(dwarf_formstring)                                                                            \
    X(dwarf_formudata)                                                                             \
    X(dwarf_formaddr)                                                                              \
    X(dwarf_formref_die)                                                                           \
    X(dwarf_getsrclines)                                                                           \
    X(dwarf_getsrc_die)                                                                            \
    X(dwarf_linesrc)                                                                               \
    X(dwarf_lineno)                                                                                \
    X(dwarf_getsrcfiles)                                                                           \
    X(dwarf_filesrc)

struct libdw {
#define LIBDW_POINTER(function) __typeof__(function) *function;
    LIBDW_FUNCTIONS(LIBDW_POINTER)
#undef LIBDW_POINTER
};

/*
 * False: the library is not installed, or lacks a function. A loaded library
 * stays until the program ends.
 */
bool libdw_load(struct libdw *library);
