/* jeattach stats --bins. Internal to cli/verbs/. */
#pragma once

#include "cli/options.h"

/* Works on one process and returns an exit code. */
int bins_main(const struct options *options, pid_t pid);
