/* The events of watch: one line each on stderr, and with --json one object each on stdout. */
#pragma once

#include "cli/options.h"
#include "run/watch.h"

/* cause: of EVENT_STOPPED, and of event->fault, else NULL. FAULT_OUTPUT: stdout cannot be written.
 */
fault_code watch_event_print(const struct options *options, const struct watch_event *event,
                             const char *cause, struct fault *fault);
