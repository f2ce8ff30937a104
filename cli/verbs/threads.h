/* What verbs show of threads. */
#pragma once

#include "cli/options.h"

#include <sys/types.h>

/* stats --threads on one process. Returns the exit code. */
int threads_main(const struct options *options, pid_t pid);
