/* Finds the words that a mistyped one may stand for. */
#pragma once

#include <stddef.h>

enum { SUGGEST_WORDS_MAX = 4, SUGGEST_LENGTH_MAX = 32 };

struct suggestion {
    const char *wrong;
    size_t edits;                         /* of the best words so far */
    size_t count;                         /* 0: none is similar */
    const char *words[SUGGEST_WORDS_MAX]; /* in the order in which they were considered */
};

/* Neither copies: the wrong word and the words considered must outlive the suggestion. */
void suggest_begin(struct suggestion *suggestion, const char *wrong);
void suggest_consider(struct suggestion *suggestion, const char *word);

/*
 * Writes the suggestions, each after prefix: "--focus or --force". Returns out, which is empty if
 * there are none.
 */
const char *suggest_text(const struct suggestion *suggestion, const char *prefix, char *out,
                         size_t size);

/*
 * Returns the edits from a to b, in either case: insertions, deletions, replacements, and
 * transpositions of neighbours, of which none is edited again (optimal string alignment). Words
 * longer than SUGGEST_LENGTH_MAX: SIZE_MAX.
 */
size_t suggest_edits(const char *a, const char *b);
