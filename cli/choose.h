/* The processes that the words of the command line mean. */
#pragma once

#include "cli/options.h"
#include "run/targets.h"

/* For -n, --container, --cgroup and -s. */
struct selector choose_selector(const struct options *options);

/*
 * Finds and pins them; targets_free in each case. If a search without --all or
 * -s finds several processes, they are listed and none is taken. Returns
 * EXIT_DONE, else the exit code after a message.
 */
int choose_targets(struct targets *targets, const struct options *options);
