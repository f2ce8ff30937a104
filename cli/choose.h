/* The processes that the options of the command line choose. */
#pragma once

#include "cli/options.h"
#include "run/targets.h"

/* Returns the selector for -n, --container, --cgroup and -s. */
struct selector choose_selector(const struct options *options);

/*
 * Finds and pins the processes, as a verb takes them (TAKES_ANY: also those without jemalloc;
 * TAKES_SAMPLING). If a search without
 * --all or -s finds several, lists them and chooses none. Returns EXIT_DONE, or the exit code after
 * a message. Call targets_free even after a failure.
 */
int choose_targets(struct targets *targets, const struct options *options, unsigned takes);
