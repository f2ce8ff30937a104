/*
 * Runs a verb on one or several processes. With several, a separate process of
 * the tool works on each, a few at a time: a hang or a crash with one target
 * does not affect the others.
 */
#pragma once

#include "cli/verbs/verbs.h"

/* Runs the verb on every process that the options search for, or on those that they name. Returns
 * the highest exit code. */
int several_run(const struct options *options, const struct verb *verb);

/*
 * Turns each JSON document into one line, for readers that process line by line: the position
 * within a document; all 0 at the start.
 */
struct json_lines {
    unsigned depth;     /* of brackets */
    bool text, escaped; /* within a string; after a backslash in it */
};

/*
 * Continues with the next bytes: replaces newlines and tabs within a document
 * with blanks. Strings, which cannot contain them, do not change.
 */
void json_lines_join(struct json_lines *lines, char *bytes, size_t len);
