#include "base/suggest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PREFIX_MIN = 2 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool equal_letters(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

size_t suggest_edits(const char *a, const char *b)
{
    size_t space[3][SUGGEST_LENGTH_MAX + 1] = {0}, n = strlen(a);

    if (n > SUGGEST_LENGTH_MAX || strlen(b) > SUGGEST_LENGTH_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= strlen(b); j++)
        space[0][j] = j;
    for (size_t i = 1; i <= n; i++) { /* the last three rows of the table are kept */
        size_t *now = space[i % 3], *before = space[(i + 2) % 3], *earlier = space[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= strlen(b); j++) {
            size_t replaced = before[j - 1] + !equal_letters(a[i - 1], b[j - 1]);
            now[j] = least(replaced, least(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && equal_letters(a[i - 1], b[j - 2]) &&
                equal_letters(a[i - 2], b[j - 1]))
                now[j] = least(now[j], earlier[j - 2] + 1);
        }
    }
    return space[n % 3][strlen(b)];
}

/* A third of a word may be wrong; of a short one, a letter. */
void suggest_begin(struct suggestion *suggestion, const char *wrong)
{
    size_t length = strlen(wrong), edits = length < 2 ? 0 : length < 6 ? 1 : length / 3;

    *suggestion = (struct suggestion){.wrong = wrong, .edits = edits};
}

/* The beginning of a word counts as one edit. */
void suggest_consider(struct suggestion *suggestion, const char *word)
{
    const char *wrong = suggestion->wrong;
    size_t length = strlen(wrong), edits = suggest_edits(wrong, word);

    if (length >= PREFIX_MIN && strncasecmp(wrong, word, length) == 0)
        edits = least(edits, 1);
    if (edits > suggestion->edits)
        return;
    if (edits < suggestion->edits)
        suggestion->count = 0;
    suggestion->edits = edits;
    for (size_t i = 0; i < suggestion->count; i++)
        if (strcmp(suggestion->words[i], word) == 0)
            return;
    if (suggestion->count < SUGGEST_WORDS_MAX)
        suggestion->words[suggestion->count++] = word;
}

const char *suggest_text(const struct suggestion *suggestion, const char *prefix, char *out,
                         size_t size)
{
    size_t used = 0, count = suggestion->count;

    out[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s%s", prefix, suggestion->words[i],
                                 i + 1 == count   ? ""
                                 : i + 2 == count ? " or "
                                                  : ", ");
    return out;
}
