/* The events of a watch: a line for each on stderr, or with --json an object on stdout. */
#pragma once

#include "cli/options.h"
#include "run/watching.h"

/* cause: of FAILED and STOPPED; else NULL. FAULT_OUTPUT if stdout takes no more. */
fault_code watch_event_print(const struct options *options, const struct watch_event *event,
                             const char *cause, struct fault *fault);
