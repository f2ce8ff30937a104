/* jeattach peek */
#include "cli/job.h"
#include "cli/verbs/verbs.h"

static int peek_main(const struct options *options, pid_t pid)
{
    (void)options;
    (void)pid;
    return EXIT_USAGE;
}

const struct verb verb_peek = {
    .name = "peek",
    .summary = "show what the objects in the heap are, by a sample",
    .synopses = {"[options] PID..."},
    .takes = TAKES_PEEK,
    .intro = "To be written.\n",
    .run = peek_main,
};
