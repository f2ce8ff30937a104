/* One line on stderr that is written over and over, where stderr is a terminal; else nothing. */
#pragma once

#include "cli/options.h"

/* Shows the line, cut to the width of the terminal; nothing with -q. */
__attribute__((format(printf, 2, 3))) void progress_show(const struct options *options,
                                                         const char *fmt, ...);
/* Takes it away again, before anything else is written to stderr. */
void progress_clear(const struct options *options);
