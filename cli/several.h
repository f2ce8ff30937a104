/*
 * Runs a verb on one or several processes. With several, a separate process of
 * the tool works on each, a few at a time: a hang or a crash with one target
 * does not affect the others.
 */
#pragma once

#include "cli/verbs/verbs.h"

/* Runs the verb on every process that the options choose. Returns the highest exit code. */
int several_run(const struct options *options, const struct verb *verb);
