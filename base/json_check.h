/* Checks that a text from a target is valid JSON. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { JSON_DEPTH_MAX = 64 };

/* True if it is one value of RFC 8259, with blanks around it, nested at most JSON_DEPTH_MAX deep.
 */
bool json_valid(const char *text, size_t len);
