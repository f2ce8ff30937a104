/* Long lines of text, wrapped at the end of a word on a terminal; elsewhere they stay one line. */
#pragma once

#include <stdio.h>

struct wrap {
    char *text; /* what was written so far */
    size_t len;
    FILE *stream;
};

/* Returns the width of the terminal on stdout; 80: it is none. */
size_t wrap_columns(void);
/*
 * Returns a stream for the text; out itself if there is no memory for one. Each call needs a
 * wrap_end.
 */
FILE *wrap_begin(struct wrap *wrap, FILE *out);
/* Prints the text to out, wrapped at the width of the terminal on stdout, if it is one. */
void wrap_end(struct wrap *wrap, size_t indent, FILE *out);

/*
 * Prints a text in lines of at most so many columns, those after the first behind an indent. A
 * word is not broken. The text has no control characters other than newlines.
 */
void wrap_print(const char *text, size_t columns, size_t indent, FILE *out);
