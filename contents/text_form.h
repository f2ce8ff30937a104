/* Text at or near the start of an object, and what kind of text it is. */
#pragma once

#include "attach/memory.h"

struct text_place {
    size_t at, len; /* bytes */
};

/*
 * Finds text (ASCII or UTF-8) at the start of an object, or after a small header that is
 * proven by the length of the text, by a pointer to it, or by the text being most of the
 * object. addr: of the object.
 */
bool text_find(const unsigned char *bytes, size_t len, remote_addr addr, struct text_place *place);

/* "JSON", "XML", "URL", "path", "digits", "hex", "base64", "name", "words": static text. */
const char *text_form(const char *text, size_t len);
