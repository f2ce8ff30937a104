/*
 * The C++ class of an object, from its vtable's run-time type information, as the Itanium
 * C++ ABI 2.9.5 lays it out. It needs no symbols: a stripped program has it, unless it was
 * compiled with -fno-rtti.
 *
 *   vtable           typeinfo of the class     vtable of the typeinfo's own class
 *     offset to top    vtable address ---------> ... its typeinfo -> name
 *     typeinfo ----->  name -> "7Session"            "N10__cxxabiv117__class_type_infoE", ...
 *   > functions
 */
#pragma once

#include "base/arena.h"
#include "elf/modules.h"
#include "profile/symbols/reader.h"

/* What an address points to: a module of the process, with its .bss, or other memory. */
struct places {
    struct memory *memory;
    const struct modules *modules;
    remote_addr *ends; /* of each module, from its program headers; 0: not looked at */
};

enum { PLACE_NOWHERE = -2, PLACE_MEMORY = -1 };

/* False: out of memory. places_free in either case. */
bool places_init(struct places *places, struct memory *memory, const struct modules *modules);
void places_free(struct places *places);

/* Returns the index of the module, PLACE_MEMORY, or PLACE_NOWHERE if no memory is there. */
int places_at(struct places *places, remote_addr addr);

enum { CLASS_NAME_MAX = 4096, CLASS_TEXT_MAX = 1000, CLASS_FAMILIES = 16 };

struct class_names {
    struct places *places;
    struct arena *arena;
    struct reader demangler;
    /* Addresses of vtables of typeinfo classes, proven; others are asked for again. */
    remote_addr proven[CLASS_FAMILIES];
    size_t proven_count;
};

/*
 * Returns the name of the class whose vtable has its address point there, in the arena, or
 * NULL: it is not proven to be one. Reads at most 5 words and 2 names.
 */
const char *class_names_find(struct class_names *classes, remote_addr address_point);

enum { PYTHON_NAME_MAX = 256 };

/*
 * Returns the name of a type of Python that is in a module, "dict (Python)", in the arena, or NULL:
 * none is proven to be there. Reads at most 8 words and 2 names.
 */
const char *class_names_python(struct class_names *classes, remote_addr at);

/* Returns the demangled name of a symbol, of at most CLASS_TEXT_MAX bytes, in the arena, or NULL.
 */
const char *class_names_demangle(struct class_names *classes, const char *symbol);
