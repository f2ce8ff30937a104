/*
 * Writes the functions of a profile and the calls between them as a graph in
 * DOT, the language of Graphviz.
 */
#pragma once

#include "profile/top.h"

enum { DOT_NODES = 80 }; /* nodes if display->rows is 0; as in pprof */

/* False: out of memory; errors of out are the caller's to check. */
bool dot_write(const struct samples *samples, const struct display *display, FILE *out);
