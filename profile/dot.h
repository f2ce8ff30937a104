/* The functions of a profile and the calls between them as a graph in Graphviz' language DOT. */
#pragma once

#include "profile/top.h"

enum { DOT_NODES = 80 }; /* drawn when display->rows is 0; as pprof does */

/* False: out of memory; errors of out are the caller's to check. */
bool dot_write(const struct samples *samples, const struct display *display, FILE *out);
