/* The symbol tables of one module, .symtab and .dynsym of all its files, as one index. */
#pragma once

#include "base/arena.h"
#include "profile/symbols/object.h"
#include "profile/symbols/spans.h"

struct index_symbol {
    uint64_t address, size; /* link-time address; bytes, 0: unknown */
    const char *name;       /* in the object, or in the arena if a version was removed */
    unsigned char binding;  /* STB_* */
    bool code;              /* STT_FUNC, not just a label */
};

struct symbol_index {
    struct index_symbol *symbols;
    size_t count, capacity;
    struct spans spans; /* of indices in symbols */
};

/* Adds the functions of an object, which must outlive the index. False: out of memory. */
bool symbol_index_add(struct symbol_index *index, struct object *object, struct arena *arena);
/* Call it once after the last symbol_index_add. False: out of memory. */
bool symbol_index_finish(struct symbol_index *index);
/* Returns the symbol of the function at a link-time address, or NULL. */
const struct index_symbol *symbol_index_find(const struct symbol_index *index, uint64_t address);
void symbol_index_free(struct symbol_index *index);
