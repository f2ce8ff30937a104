/* The addresses in modules with which objects begin: each is looked up once. */
#pragma once

#include "attach/target.h"
#include "base/table.h"
#include "contents/class_names.h"

enum { CONTENT_WORDS_MAX = 1 << 20, WORD_TEXT_MAX = CLASS_TEXT_MAX + 32 };

struct content_word {
    remote_addr value;
    int module;             /* index */
    bool begins;            /* an object begins with it: its symbol is wanted */
    const char *class_name; /* NULL: it is not known to be a vtable */
    const char *python;     /* of a type of Python; NULL: it is none, or not looked at */
    bool python_asked;
    const char *symbol; /* after words_resolve; NULL: none */
    remote_addr symbol_at;
    uint64_t bias;    /* after words_resolve: of its module */
    const char *text; /* of words_text */
};

struct content_words {
    struct places *places;
    const struct target *target;
    struct target_alias alias;
    struct arena *arena;
    struct class_names classes;
    struct table table;
    struct content_word *list;
    size_t count, capacity;
};

/* All three must outlive it; words_free leaves the texts, which are in the arena. */
void words_init(struct content_words *words, struct places *places, const struct target *target,
                struct arena *arena);
void words_free(struct content_words *words);

/* Returns the index of an address that is in that module; TABLE_NONE: the list is full. */
uint32_t words_put(struct content_words *words, remote_addr value, int module);
/*
 * Finds the symbols of those that are no classes; reads the symbol tables of their modules. False:
 * not all, as a signal or the deadline came.
 */
bool words_resolve(struct content_words *words);
/*
 * Returns SYMBOL, SYMBOL+0xOFFSET, or MODULE+0xADDRESS with the address in the module's file;
 * in the arena. NULL: out of memory.
 */
const char *words_text(struct content_words *words, struct content_word *word);
/* Returns the name of a module (target_file_name). */
const char *words_module_name(const struct content_words *words, int module);
