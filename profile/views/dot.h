/*
 * Writes the functions of a profile and the calls between them as a graph in
 * DOT, the language of Graphviz.
 */
#pragma once

#include "profile/views/display.h"

#include <stdio.h>

enum { DOT_NODES = 80 }; /* nodes unless the display gives a number; as in pprof */

/*
 * display->rows: maximum number of nodes; if it is 0, DOT_NODES, or all nodes if
 * display->least is 0, too. A call is drawn if it has a fifth of display->least.
 * False: out of memory; errors of out are the caller's to check.
 */
bool dot_write(const struct samples *samples, const struct display *display, FILE *out);
