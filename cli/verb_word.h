/* The verb of a command line, which may stand after options. */
#pragma once

#include <stdbool.h>

/* True, with the TAKES_* of the verb, if word is the name of a verb. */
typedef bool (*verb_lookup)(const char *word, unsigned *takes);

/*
 * Returns the index of the first word that is neither an option nor the value of one: the verb, if
 * the line has one. 0: there is none. Which options have a value is in option_table.c. Where that
 * depends on the verb, the next word is not the value if it is a verb with such an option.
 */
int verb_word_find(int argc, char *const *argv, verb_lookup lookup);
