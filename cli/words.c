#include "cli/words.h"
#include "base/suggest.h"
#include "cli/message.h"

#include <stdio.h>
#include <string.h>

bool words_refuse(const char *kind, const char *wrong, const char *const *words, size_t count)
{
    struct suggestion suggestion;
    char clean[64], text[256] = "";

    suggest_begin(&suggestion, wrong);
    for (size_t i = 0; i < count; i++)
        suggest_consider(&suggestion, words[i]);
    message_clean(wrong, clean, sizeof clean);
    if (suggestion.count) {
        message("unknown %s '%s': did you mean %s?", kind, clean,
                suggest_text(&suggestion, "", text, sizeof text));
        return false;
    }
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? ", " : "", words[i]);
    message("unknown %s '%s': must be one of %s", kind, clean, text);
    return false;
}

bool words_choose(const char *kind, const char *word, const char *const *words, size_t count,
                  unsigned *out)
{
    for (*out = 0; *out < count; ++*out)
        if (strcmp(words[*out], word) == 0)
            return true;
    return words_refuse(kind, word, words, count);
}

const char *filename_flaw_text(enum filename_flaw flaw)
{
    static const char *const texts[] = {
        [FILENAME_EMPTY] = "the file name is empty",
        [FILENAME_TOO_LONG] = "the file name is too long",
        [FILENAME_DIRECTIVE] =
            "unknown directive in the file name: must be one of %n, %p, %P, %t, %r, %h, %%",
        [FILENAME_VARIES] = "%t and %r are valid only in the file name, not in its directory",
    };

    return texts[flaw];
}
