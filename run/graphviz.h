/* Runs dot of Graphviz as a child. */
#pragma once

#include "base/fault.h"

#include <stddef.h>
#include <stdio.h>

/* Finds dot in $PATH; false if it is not installed. */
bool graphviz_find(char *path, size_t size);
/*
 * Draws the graph as SVG to out. FAULT_DRAW: dot has failed, or took more than half
 * a minute or 2 GiB of memory. FAULT_OUTPUT: it cannot be run.
 */
fault_code graphviz_draw(const char *dot, const char *graph, size_t len, FILE *out,
                         struct fault *fault);
