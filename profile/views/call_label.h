/* A call as text, for a line of limited width. */
#pragma once

#include "profile/samples.h"
#include "profile/views/display.h"

enum { CALL_LABEL_SIZE = 2048 };

/*
 * Writes "name" or, with_line, "name (file.c:12)" to out, which has space for
 * CALL_LABEL_SIZE bytes. Characters that must not be printed become '?'. A name
 * that needs more than `columns` loses its start, "..name"; columns 0: no limit.
 * Returns the number of columns.
 */
size_t call_label(const struct samples *samples, const struct function *function, unsigned line,
                  bool with_line, size_t columns, char *out);

/* Where a stack allocates, in a sentence. */

enum { PLACE_TEXT_SIZE = 768 };

/*
 * Writes "xmalloc (xmalloc.c:28) <- session_new (session.c:81)": the innermost call of the
 * program's own code and its caller there, because the first one may be a wrapper of malloc that
 * everything calls. It may contain any bytes. Returns out.
 */
const char *place_text(const struct samples *samples, const struct sample *sample,
                       char out[PLACE_TEXT_SIZE]);
