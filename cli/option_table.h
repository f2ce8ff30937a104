/* Every option of the command line, described once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The value of an option. FLAG has none. */
enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_DURATION,
    OPTION_NUMBER,
    OPTION_BYTES,
    OPTION_PID,
    OPTION_THREAD,
    OPTION_INSTANCE,
    OPTION_PARALLEL,
    OPTION_MODE,
    OPTION_ALLOW,
    OPTION_RULE,
    OPTION_BETWEEN,
};

/* Where --help lists an option. */
enum option_group {
    OPTIONS_CHOICE,  /* which processes: jeattach --help */
    OPTIONS_COMMON,  /* jeattach --help */
    OPTIONS_OF_VERB, /* jeattach VERB --help */
    OPTIONS_PROFILE, /* the same, below its own heading: how a profile is shown */
};

struct option_row {
    const char *name;
    char letter; /* '\0': none */
    enum option_kind kind;
    size_t offset;     /* of the value in struct options */
    unsigned needs;    /* a verb takes the option if it has one of these TAKES_*; 0: every verb */
    unsigned excludes; /* except verbs with one of these TAKES_* */
    enum option_group group;
    const char *value; /* its name in --help; NULL: none */
    const char *help;  /* one paragraph; a verb can replace it (struct verb, option_help) */
};

enum { OPTION_ROWS_MAX = 96 };

extern const struct option_row option_rows[];
extern const size_t option_row_count;

/* True if a verb that takes these (TAKES_*) has the option. */
bool option_is_taken(unsigned takes, const struct option_row *row);

/* Returns the option of that name that such a verb has; NULL: it has none. */
const struct option_row *option_find(unsigned takes, const char *name);

/* True, with the TAKES_* of the verb, if word is the name of a verb. */
typedef bool (*verb_lookup)(const char *word, unsigned *takes);

/*
 * Returns the index of the first word that is neither an option nor the value of one: the verb, if
 * the line has one. 0: there is none. Which options have a value is in option_table.c. Where that
 * depends on the verb, the next word is not the value if it is a verb with such an option.
 */
int verb_word_find(int argc, char *const *argv, verb_lookup lookup);
