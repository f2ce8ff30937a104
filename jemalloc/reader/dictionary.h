/*
 * Numbers program counters: the stacks of a profile have few different ones, and
 * as numbers they take half of the memory and are ordered faster.
 */
#pragma once

#include "base/table.h"

struct dictionary {
    uint64_t *words; /* by number */
    size_t count, capacity;
    struct table table;
    struct dictionary_recent *recent; /* those numbered last, by a hash */
};

enum { DICTIONARY_WORD_BYTES = 64 }; /* of memory for each word, at most */

/* A dictionary of zeros is empty. */
void dictionary_free(struct dictionary *dictionary);

/* Sets codes[i] to the number of words[i]. False: out of memory. */
bool dictionary_encode(struct dictionary *dictionary, const uint64_t *words, size_t count,
                       uint32_t *codes);

/*
 * Numbers the words in the order that memcmp(3) gives them, and changes the codes,
 * all that are in use, accordingly. Must be the last that is done with it: only
 * words is valid afterwards. False: out of memory.
 */
bool dictionary_order(struct dictionary *dictionary, uint32_t *codes, size_t count);
