/* What explain has found, on one screen of 24 lines of 80 columns. */
#pragma once

#include "cli/message.h"
#include "run/explain/explain.h"

#include <stdio.h>

enum { EXPLAIN_SITES = 3 };

/* Prints all of it; subject: the process as messages name it. */
void explain_print(const struct explain *explain, const struct subject *subject, FILE *out);
