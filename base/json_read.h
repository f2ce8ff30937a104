/*
 * Reads values out of a JSON text that json_valid has accepted. A value is a part of
 * the text, with its brackets or quotes. Nothing is read past the end of the text,
 * whatever its bytes are; of a text that is not valid the values are undefined.
 */
#pragma once

#include "base/cursor.h"

/* Returns the one value of the text, without the blanks around it; empty if there is none. */
struct cursor json_root(const char *text, size_t len);

/*
 * Takes the next item of a list, or the next member of an object: *rest begins as the
 * list or object itself. key may be NULL; it is without its quotes, and its escapes
 * stay. False at the end, and for a value that is neither.
 */
bool json_next(struct cursor *rest, struct cursor *key, struct cursor *value);

/* Finds the first member of an object with that name; false if there is none. */
bool json_find(struct cursor object, const char *name, struct cursor *value);

/* Returns a number without sign, point and exponent, of at most 64 bits; else 0. */
uint64_t json_uint64(struct cursor value);

/* Returns such a member of an object; 0: it has none. */
uint64_t json_find_uint64(struct cursor object, const char *name);

/* Copies a text without escapes; "" if it is none, or does not fit with its NUL. */
void json_copy_text(struct cursor value, char *out, size_t size);
