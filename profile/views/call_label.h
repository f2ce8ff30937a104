/* A call as text, for a line of limited width. */
#pragma once

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
