#include "cli/help.h"
#include "cli/message.h"

#include <stdio.h>
#include <string.h>

static const char overview[] =
    "jeattach VERB [options] PID...\n"
    "jeattach                        (the same as jeattach ps)\n"
    "\n"
    "Attaches to a running process that uses jemalloc, makes one of its threads call\n"
    "mallctl, and lets it go on as if nothing had been. The process needs no\n"
    "preparation and is not restarted; only one thread is ever stopped.\n"
    "\n"
    "  ps       which processes use jemalloc, on the whole host\n"
    "  status   is jemalloc in there, can it profile, does it, and what to do next\n"
    "  on       start to sample allocations (prof.active)\n"
    "  off      stop to sample them\n"
    "  dump     write a heap profile, in the target or streamed out of it\n"
    "\n"
    "Options of every verb:\n"
    "  -p, --pid PID       the process, as an option\n"
    "      --timeout D     for everything together: 500ms, 30s, 5m (default 30s)\n"
    "      --thread TID    use this thread only\n"
    "      --instance N    this jemalloc, of several in the process (see status)\n"
    "      --dry-run       say what would be called, where and in which thread\n"
    "      --json          the result as one JSON object\n"
    "  -q, --quiet         no closing line on stderr\n"
    "  -v, --verbose       say which thread was chosen and why; -vv: every ptrace call\n"
    "  -h, --help          this; jeattach VERB --help: of one verb\n"
    "  -V, --version\n"
    "\n"
    "Exit codes: 0 done, 1 internal error, 2 usage, 3 no such process, 4 not permitted,\n"
    "5 no jemalloc, 6 profiling not available, 7 no safe moment (nothing was touched),\n"
    "8 the call did not end in time (it completes by itself), 9 output not written,\n"
    "10 jemalloc refused, 130 interrupted.\n";

static const struct {
    const char *verb, *text;
} helps[] = {
    {"status", "jeattach status [options] PID...\n"
               "\n"
               "Shows which jemalloc a process uses, whether profiling is compiled in\n"
               "(config.prof), was enabled at start (opt.prof) and is active now (prof.active),\n"
               "the sampling period, and the one next step. What the memory of the process does\n"
               "not tell is asked by read-only calls.\n"
               "Several jemallocs in one process are listed; the one that serves malloc is\n"
               "meant unless --instance N says another.\n"
               "\n"
               "      --no-call       make none and stop nothing; what is then unknown is a ?\n"},
    {"ps", "jeattach ps [--json] [--timeout D]\n"
           "\n"
           "Lists the processes of this host that use jemalloc, those in containers included.\n"
           "Nothing is stopped and nothing is called; what cannot be read from outside is a ?.\n"
           "\n"
           "  PID        as it is seen from here\n"
           "  NSPID      as the process sees itself, in its own pid namespace\n"
           "  JEMALLOC   its version, and the prefix of its functions if there is one\n"
           "  LINKAGE    shared, preloaded (LD_PRELOAD), static (linked into a program)\n"
           "  PROF       active, inactive (can be switched on), enabled (one of these two),\n"
           "             disabled (opt.prof is false), absent (built without profiling)\n"
           "  RSS        resident memory\n"
           "  CONTAINER  engine and id, and the pod, from the names of its control groups\n"
           "\n"
           "The exit code is 0 also when no process uses jemalloc. Processes that may not be\n"
           "read are counted on stderr; root sees all.\n"},
    {"on", "jeattach on [options] PID...\n"
           "\n"
           "Sets prof.active to true and reads it back; prints the former and the new value.\n"
           "Doing it twice is harmless. Allocations made from now on are sampled; those that\n"
           "exist already are not seen. The process must have been started with prof:true.\n"},
    {"off", "jeattach off [options] PID...\n"
            "\n"
            "Sets prof.active to false and reads it back; prints the former and the new value.\n"},
    {"dump", "jeattach dump [options] PID...\n"
             "\n"
             "Makes the process write its heap profile and prints the path by which it can be\n"
             "opened from here. By default jemalloc makes the name (opt.prof_prefix).\n"
             "\n"
             "      --path P        in the target: to this path (relative to its directory)\n"
             "  -o, --output FILE   streamed: nothing is created on the target's side, it needs\n"
             "                      no file, no descriptor, no room on a disk; FILE is written\n"
             "                      here, complete or not at all; - is stdout\n"},
};

static int check(void)
{
    return fflush(stdout) == 0 ? EXIT_DONE : EXIT_OUTPUT;
}

int help_print(const char *verb)
{
    if (!verb) {
        fputs(overview, stdout);
        return check();
    }
    for (size_t i = 0; i < sizeof helps / sizeof *helps; i++)
        if (strcmp(helps[i].verb, verb) == 0) {
            printf("%s\nOptions of every verb: jeattach --help\n", helps[i].text);
            return check();
        }
    return help_usage();
}

int help_usage(void)
{
    fputs("usage: jeattach ps|status|on|off|dump [options] PID...   (jeattach --help)\n", stderr);
    return EXIT_USAGE;
}

int help_version(void)
{
    printf("jeattach %s\n", JEATTACH_VERSION);
    return check();
}
