/*
 * One verb, one or several processes. Of several, each is done by a process of
 * its own, a few at a time: what hangs or crashes with one does not touch the
 * others.
 */
#pragma once

#include "cli/options.h"

typedef int (*verb_run)(const struct options *options, pid_t pid);

/* Does it to all that the options mean. Returns the highest exit code. */
int several_run(const struct options *options, const char *verb, unsigned takes, verb_run run);
