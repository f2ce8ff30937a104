/* Where a stack allocates, in a sentence. */
#pragma once

#include "profile/samples.h"

enum { PLACE_TEXT_SIZE = 768 };

/*
 * Writes "xmalloc (xmalloc.c:28) <- session_new (session.c:81)": the innermost call of the
 * program's own code and its caller there, because the first one may be a wrapper of malloc that
 * everything calls. It may contain any bytes. Returns out.
 */
const char *place_text(const struct samples *samples, const struct sample *sample,
                       char out[PLACE_TEXT_SIZE]);
