/* A call as text, for a line of limited width. */
#pragma once

#include "profile/samples.h"
#include "profile/views/display.h"

#include <stdio.h>

enum { CALL_LABEL_SIZE = 2048 };

/*
 * Writes "name" or, with_line, "name (file.c:12)" to out, which has space for
 * CALL_LABEL_SIZE bytes. Characters that must not be printed become '?'. A name
 * that needs more than `columns` loses its start, "..name"; columns 0: no limit.
 * Returns the number of columns.
 */
size_t call_label(const struct samples *samples, const struct function *function, unsigned line,
                  bool with_line, size_t columns, char *out);

/*
 * Writes the calls of a stack in a line, as many of its callers as fit into the columns:
 * "touched (growth.c:127) <- leak_here <- main". columns 0: no limit.
 */
void stack_line(const struct samples *samples, const struct sample *sample, size_t columns,
                FILE *out);

/*
 * Writes the calls of a stack that stack_text_choose gives, one below the other, the innermost
 * first, and behind the last one the number of those left out, which it returns; no line end.
 */
enum { CALL_INDENT = 12 };
uint32_t stack_lines(const struct samples *samples, const struct sample *sample, size_t depth,
                     FILE *out);

/* Where a stack allocates, in a sentence. */

enum { PLACE_TEXT_SIZE = 768, COMMON_TEXT_SIZE = 300 };

/*
 * Writes "session_new (session.c:81) <- accept_client (server.c:12)": the innermost call of the
 * program's own code that has a name, and its caller there. It may contain any bytes. Returns out.
 */
const char *place_text(const struct samples *samples, const struct sample *sample,
                       char out[PLACE_TEXT_SIZE]);
/*
 * Writes "; 98 % below PrepareQuery": the deepest function below which most of the memory is
 * allocated; weights[i] >= 0 is the memory of sample i. "": there is none, or it is where the
 * program begins, or the call by which the heaviest sample is named.
 */
const char *common_caller_text(const struct samples *samples, const double *weights,
                               char out[COMMON_TEXT_SIZE]);
