/* JSON documents, each made one line: for a reader that takes them line by line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Where in a text one is; all 0 at its beginning. */
struct json_lines {
    unsigned depth; /* of brackets */
    bool text, escaped;
};

/*
 * Goes on with the next bytes: newlines and tabs within a document become
 * blanks. In a text (which has none of them) nothing changes.
 */
void json_lines_join(struct json_lines *lines, char *bytes, size_t len);
