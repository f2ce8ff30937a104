#include "cli/words.h"
#include "base/suggest.h"
#include "cli/message.h"

#include <stdio.h>
#include <string.h>

static const char *join_words(const char *const *words, size_t count, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < count; i++)
        snprintf(out + strlen(out), size - strlen(out), "%s%s", i ? ", " : "", words[i]);
    return out;
}

bool words_refuse(const char *kind, const char *wrong, const char *const *words, size_t count)
{
    struct suggestion suggestion;
    char clean[64], text[256];

    suggest_begin(&suggestion, wrong);
    for (size_t i = 0; i < count; i++)
        suggest_consider(&suggestion, words[i]);
    message_clean(wrong, clean, sizeof clean);
    if (suggestion.count)
        message("unknown %s '%s': did you mean %s?", kind, clean,
                suggest_text(&suggestion, "", text, sizeof text));
    else
        message("unknown %s '%s': must be one of %s", kind, clean,
                join_words(words, count, text, sizeof text));
    return false;
}
