/* A line on stderr that is overwritten repeatedly. Nothing is shown if stderr is no terminal. */
#pragma once

#include "cli/options.h"

/* Shows the line, truncated to the width of the terminal; nothing with -q. */
__attribute__((format(printf, 2, 3))) void progress_show(const struct options *options,
                                                         const char *fmt, ...);
/* Removes the line; call this before anything else is written to stderr. */
void progress_clear(const struct options *options);
