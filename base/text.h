/* Prints text from a target, which may contain any bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Returns the length of the first character of a text that ends with a NUL: one
 * byte if it is not valid UTF-8. *shown is false for a character that must not be
 * printed: a byte that is not UTF-8, a control (of ASCII, and C1 of ECMA-48), one
 * that changes the direction of the text around it, and one that is invisible, so
 * that two names which differ never look the same.
 */
size_t text_unit(const char *text, bool *shown);

/* Returns the code point of a character whose length text_unit has returned. */
uint32_t text_code_point(const char *text, size_t len);

/* Does the same, but returns all printable ASCII up to a character of `but` as one piece. */
size_t text_piece(const char *text, const char *but, bool *shown);

/* Writes a text with '?' for characters that must not be printed, and for those of `also`. */
void text_write_clean(FILE *out, const char *text, const char *also);

/* Returns a copy with the same replacements, owned by the caller. NULL: out of memory. */
char *text_copy_clean(const char *text, const char *also);

/* Writes a text of several lines and any bytes in the same way; newlines and tabs stay. */
void text_write_lines(FILE *out, const char *text, size_t len);

/* Appends to a text in an array of size bytes; what does not fit is left out. */
__attribute__((format(printf, 3, 4))) void text_append(char *text, size_t size, const char *fmt,
                                                       ...);

bool text_ends_with(const char *text, const char *end);

/* Returns the part of a path after its last slash. */
const char *text_base_name(const char *path);
/*
 * Returns the value of a variable in an environment, of len bytes, with a NUL behind each variable
 * and behind all; NULL if it is not set.
 */
const char *text_variable(const char *environment, size_t len, const char *name);
