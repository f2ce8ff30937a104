#include "contents/words.h"
#include "base/interruptions.h"
#include "base/list.h"
#include "base/search.h"
#include "elf/function_names.h"
#include "elf/sections.h"

#include <stdio.h>
#include <string.h>

void words_init(struct content_words *words, struct places *places, const struct target *target,
                struct arena *arena)
{
    *words = (struct content_words){
        .places = places,
        .target = target,
        .arena = arena,
        .classes = {.places = places, .arena = arena, .demangler = {.arena = arena}}};
    target_alias_find(&words->alias, target);
    table_init(&words->table);
}

void words_free(struct content_words *words)
{
    reader_end(&words->classes.demangler);
    table_free(&words->table);
    free(words->list);
}

/* ---- the list ---- */

static bool is_same_word(const void *ctx, uint32_t index, const void *key)
{
    const struct content_words *words = ctx;
    const remote_addr *value = key;

    return words->list[index].value == *value;
}

uint32_t words_put(struct content_words *words, remote_addr value, int module)
{
    uint64_t hash = table_hash_number(&words->table, value);
    uint32_t fresh = (uint32_t)words->count, index;

    if (words->count == CONTENT_WORDS_MAX || !LIST_GROW(words->list, words->capacity, words->count))
        return TABLE_NONE;
    index = table_put(&words->table, hash, is_same_word, words, &value, fresh);
    if (index == fresh)
        words->list[words->count++] =
            (struct content_word){.value = value,
                                  .module = module,
                                  .class_name = class_names_find(&words->classes, value)};
    return index;
}

const char *words_module_name(const struct content_words *words, int module)
{
    return target_file_name(&words->alias, words->places->modules->list[module].path);
}

/* ---- their symbols ---- */

/*
 * A word is in a few symbols, of which the last is the most precise. A file can be made to
 * have millions that contain every word: the first of them will do.
 */
enum { NAMES_PER_WORD = 16, VISITS_PER_WORD = 4096 };

static const char vtable_words[] = "vtable for ";

struct word_search {
    struct content_words *words;
    struct content_word **sorted; /* those of the module that have no class, by address */
    size_t count;
    size_t names_left, visits_left;
};

static int compare_words(const void *a, const void *b)
{
    const struct content_word *const *one = a, *const *two = b;

    if ((*one)->module != (*two)->module)
        return (*one)->module < (*two)->module ? -1 : 1;
    return (*one)->value < (*two)->value ? -1 : (*one)->value > (*two)->value;
}

/* Of several symbols that contain a word, the one that begins last is the most precise. */
static bool visit_symbol(void *ctx, const char *name, const struct symbol *symbol)
{
    struct word_search *search = ctx;
    uint64_t size = symbol->size ? symbol->size : 1;
    size_t i = SEARCH_FIRST(k, search->count, search->sorted[k]->value >= symbol->address);

    for (; i < search->count && search->sorted[i]->value - symbol->address < size; i++) {
        struct content_word *word = search->sorted[i];
        if (!search->names_left || !search->visits_left)
            return false;
        search->visits_left--;
        if (!*name || (word->symbol && word->symbol_at >= symbol->address))
            continue;
        search->names_left--;
        const char *text = class_names_demangle(&search->words->classes, name);
        if (!text)
            continue;
        word->symbol = text;
        word->symbol_at = symbol->address;
        /* An address point is behind the offset to top and the type information. */
        if (strncmp(text, vtable_words, sizeof vtable_words - 1) == 0 &&
            word->value - symbol->address == 16)
            word->class_name = text + sizeof vtable_words - 1;
    }
    return true;
}

/* A stripped file has the symbols that it exports, and may have a debug file. */
static void search_module(struct word_search *search)
{
    const struct places *places = search->words->places;
    const struct module *module = &places->modules->list[search->sorted[0]->module];
    struct function_names names;

    if (function_names_open(&names, module, search->words->target, places->memory)) {
        for (size_t i = 0; i < search->count; i++)
            search->sorted[i]->bias = names.image.bias;
        if (names.file >= 0 &&
            !symtab_visit_all(names.file, names.image.bias, NULL, visit_symbol, search)) {
            symtab_visit_dynamic(names.file, names.image.bias, visit_symbol, search);
            function_names_visit(&names, SYMBOLS_MINIDEBUG, NULL, visit_symbol, search);
            function_names_visit(&names, SYMBOLS_DEBUGFILE, NULL, visit_symbol, search);
        }
    }
    function_names_close(&names);
}

bool words_resolve(struct content_words *words)
{
    const sig_atomic_t begun = interruptions();
    AUTO_FREE struct content_word **sorted =
        calloc(words->count ? words->count : 1, sizeof *sorted);
    size_t count = 0;

    for (size_t i = 0; sorted && i < words->count; i++)
        if (words->list[i].begins && !words->list[i].class_name)
            sorted[count++] = &words->list[i];
    if (count)
        qsort(sorted, count, sizeof *sorted, compare_words);
    for (size_t start = 0, end; start < count; start = end) {
        for (end = start; end < count && sorted[end]->module == sorted[start]->module;)
            end++;
        if (interruptions_ended(begun)) {
            /* The offsets of the others count from where the module begins. */
            for (size_t i = start; i < count; i++)
                sorted[i]->bias = words->places->modules->list[sorted[i]->module].start;
            return false;
        }
        struct word_search search = {words, sorted + start, end - start,
                                     (end - start) * NAMES_PER_WORD,
                                     (end - start) * VISITS_PER_WORD};
        search_module(&search);
    }
    return !interruptions_ended(begun);
}

const char *words_text(struct content_words *words, struct content_word *word)
{
    const char *name = word->symbol ? word->symbol : words_module_name(words, word->module);
    uint64_t offset = word->value - (word->symbol ? word->symbol_at : word->bias);
    char text[WORD_TEXT_MAX];

    if (word->text || (word->symbol && !offset))
        return word->text ? word->text : word->symbol;
    snprintf(text, sizeof text, "%.*s+0x%llx", WORD_TEXT_MAX - 24, name,
             (unsigned long long)offset);
    word->text = arena_string(words->arena, text, strlen(text));
    return word->text;
}
