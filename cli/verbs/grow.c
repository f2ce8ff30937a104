/* jeattach grow */
#include "cli/job.h"
#include "cli/verbs/verbs.h"

static int grow_main(const struct options *options, pid_t pid)
{
    (void)options;
    (void)pid;
    return EXIT_USAGE;
}

const struct verb verb_grow = {
    .name = "grow",
    .summary = "show what makes the RSS grow, by stack, in any process",
    .synopses = {"[options] PID..."},
    .takes = TAKES_GROW | TAKES_OUTPUT | TAKES_FORMAT,
    .intro = "To be written.\n",
    .run = grow_main,
};
