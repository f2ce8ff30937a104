/* What is wrong with the name of an output file, in words. */
#pragma once

#include "run/filename.h"

/* NULL: nothing. */
const char *filename_flaw_text(enum filename_flaw flaw);
