/* Compressed or encrypted data: by the bytes that a format begins with, or by its entropy. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns the format that begins with these bytes, static text, or NULL. */
const char *entropy_format(const unsigned char *bytes, size_t len);

/*
 * True if the bytes are as different from each other as random ones: their entropy, in bits a
 * byte, is at least a limit that fewer than 1 of 1000 random sequences of that length miss.
 * Fewer than ENTROPY_LEAST bytes cannot show it.
 */
enum { ENTROPY_LEAST = 32 };
bool entropy_is_high(const unsigned char *bytes, size_t len);
