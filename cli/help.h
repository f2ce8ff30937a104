/* jeattach --help, jeattach VERB --help, made from the tables of verbs and options. */
#pragma once

#include "cli/verbs/verbs.h"

#include <stddef.h>

/* Both print to stdout and return an exit code. verbs: all of them, in the order of the overview.
 */
int help_overview(const struct verb *const *verbs, size_t count);
int help_verb(const struct verb *verb);

/* Prints a usage error with the names of all verbs to stderr. Returns EXIT_USAGE. */
int help_unknown_verb(const char *name, const struct verb *const *verbs, size_t count);

/* True if it may be a verb that was written wrong, or a word of other tools for one. */
bool help_resembles_verb(const char *name, const struct verb *const *verbs, size_t count);

/*
 * Prints the usage error of a command line that has a process or a file in the place of the verb,
 * which comes after it. Returns EXIT_USAGE.
 */
int help_misplaced_operand(const char *word, const char *verb);

/* Prints the version to stdout. Returns an exit code. */
int help_version(void);
