/* Turns each JSON document into one line, for readers that process line by line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Position within a document; all 0 at the start. */
struct json_lines {
    unsigned depth;     /* of brackets */
    bool text, escaped; /* within a string; after a backslash in it */
};

/*
 * Continues with the next bytes: replaces newlines and tabs within a document
 * with blanks. Strings, which cannot contain them, do not change.
 */
void json_lines_join(struct json_lines *lines, char *bytes, size_t len);
