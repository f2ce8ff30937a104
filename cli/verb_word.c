#include "cli/verb_word.h"
#include "cli/option_table.h"

#include <string.h>

/* The words of an option: itself, or with the next word. */
enum { ALONE = 1 << 0, WITH_NEXT = 1 << 1 };

static unsigned words_of_row(const struct option_row *row)
{
    return option_has_value(row) ? WITH_NEXT : ALONE;
}

/* Returns the words of all options with that name, or whose name begins with it. */
static unsigned words_of_name(const char *name, bool shortened)
{
    unsigned words = 0;

    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (shortened ? strncmp(row->name, name, strlen(name)) == 0 : strcmp(row->name, name) == 0)
            words |= words_of_row(row);
    }
    return words;
}

static unsigned words_of_letter(char letter)
{
    unsigned words = 0;

    for (size_t i = 0; i < option_row_count; i++)
        if (option_rows[i].letter == letter)
            words |= words_of_row(&option_rows[i]);
    return words;
}

/* "-qn": only the last letter can have the next word as its value, as in getopt(3). */
static unsigned words_of_letters(const char *letters)
{
    for (; *letters; letters++) {
        unsigned words = words_of_letter(*letters);
        if (words & WITH_NEXT)
            return letters[1] ? ALONE : words;
    }
    return ALONE;
}

static unsigned words_of_option(const char *option)
{
    const char *name = option + 2;
    unsigned words;

    if (option[1] != '-')
        return words_of_letters(option + 1);
    if (strchr(name, '='))
        return ALONE;
    words = words_of_name(name, false);
    return words ? words : words_of_name(name, true);
}

/* True if a verb with these options has a flag of that name, or beginning of a name. */
static bool has_flag(unsigned takes, const char *option)
{
    const char *name = option + 2;

    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (!option_has_value(row) && option_is_taken(takes, row) &&
            strncmp(row->name, name, strlen(name)) == 0)
            return true;
    }
    return false;
}

/* True if the word after an option is its value. */
static bool takes_next(const char *option, const char *next, verb_lookup lookup)
{
    unsigned words = words_of_option(option), takes;

    if (words == (ALONE | WITH_NEXT))
        return !(lookup(next, &takes) && has_flag(takes, option));
    return words == WITH_NEXT;
}

int verb_word_find(int argc, char *const *argv, verb_lookup lookup)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--") == 0)
            return i + 1 < argc ? i + 1 : 0;
        if (word[0] != '-' || !word[1])
            return i;
        if (i + 1 < argc && takes_next(word, argv[i + 1], lookup))
            i++;
    }
    return 0;
}
