/* Names on their way out: they come from a target and may hold anything. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/*
 * The length of the character at text, which ends with a NUL: valid UTF-8 or,
 * where it is none, one byte. *shown is false for what is no text to show: a
 * byte that is not UTF-8, a control (of ASCII, and ECMA-48's C1), and what
 * changes the direction of the text around it.
 */
size_t text_unit(const char *text, bool *shown);

/* With '?' for what a terminal might act on, and for the characters of `also`. */
void text_write_clean(FILE *out, const char *text, const char *also);

/* The same for a text of many lines and any bytes: newlines and tabs stay. */
void text_write_lines(FILE *out, const char *text, size_t len);

bool text_ends_with(const char *text, const char *end);
