/* The processes that the words of the command line mean. */
#pragma once

#include "attach/target.h"
#include "cli/options.h"
#include "host/selector.h"

struct targets {
    struct target_pin *pins;
    size_t count;
};

/* What -n, --container, --cgroup and -s say. */
struct selector targets_selector(const struct options *options);

/*
 * Finds and pins them. Pids are taken as they are, each once. Of a search that
 * finds several processes without --all or -s, none is taken: they are listed.
 * Returns EXIT_DONE, else the exit code after a message. targets_free in each
 * case.
 */
int targets_find(struct targets *targets, const struct options *options);
void targets_free(struct targets *targets);
