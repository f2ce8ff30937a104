/* jeattach frag */
#include "cli/job.h"
#include "cli/verbs/verbs.h"

static int frag_main(const struct options *options, pid_t pid)
{
    (void)options;
    (void)pid;
    return EXIT_USAGE;
}

const struct verb verb_frag = {
    .name = "frag",
    .summary = "show which stacks keep free memory from being returned",
    .synopses = {"[options] PID..."},
    .takes = TAKES_FRAG | TAKES_HOOKS,
    .intro = "To be written.\n",
    .run = frag_main,
};
