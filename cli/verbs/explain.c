/* jeattach explain */
#include "cli/job.h"
#include "cli/verbs/verbs.h"

static int explain_main(const struct options *options, pid_t pid)
{
    (void)options;
    (void)pid;
    return EXIT_USAGE;
}

const struct verb verb_explain = {
    .name = "explain",
    .summary = "explain the memory of a process on one screen",
    .synopses = {"[options] PID..."},
    .takes = TAKES_HOOKS,
    .intro = "To be written.\n",
    .run = explain_main,
};
