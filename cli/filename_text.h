/* Text for the flaws in the name of an output file. */
#pragma once

#include "run/filename.h"

/* Returns NULL if there is no flaw. */
const char *filename_flaw_text(enum filename_flaw flaw);
