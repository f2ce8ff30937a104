/* Graphviz' program dot, run as a child of the tool. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The path of dot by $PATH; false: it is not installed. */
bool graphviz_find(char *path, size_t size);
/* Has it draw the graph as SVG onto out. FAULT_OUTPUT: it failed, or took too long. */
fault_code graphviz_draw(const char *dot, const char *graph, size_t len, FILE *out,
                         struct fault *fault);
