#include "cli/help.h"
#include "cli/message.h"

#include <stdio.h>
#include <string.h>

static const char overview[] =
    "jeattach VERB [options] PID...\n"
    "jeattach report [options] FILE\n"
    "\n"
    "Attaches to a running process that uses jemalloc, makes one of its threads call\n"
    "mallctl, and lets it go on as if nothing had been. The process needs no\n"
    "preparation and is not restarted; only one thread is ever stopped.\n"
    "\n"
    "  status   is jemalloc in there, can it profile, does it, and what to do next\n"
    "  on       start to sample allocations (prof.active)\n"
    "  off      stop to sample them\n"
    "  dump     write a heap profile, in the target or streamed out of it\n"
    "  report   show a profile from a file: table, flame graph, pprof, ...\n"
    "\n"
    "Options of every verb:\n"
    "  -p, --pid PID       the process, as an option\n"
    "      --timeout D     for everything together: 500ms, 30s, 5m (default 30s)\n"
    "      --thread TID    use this thread only\n"
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
               "the sampling period, and the one next step. Makes read-only calls.\n"},
    {"on", "jeattach on [options] PID...\n"
           "\n"
           "Sets prof.active to true and reads it back; prints the former and the new value.\n"
           "Doing it twice is harmless. Allocations made from now on are sampled; those that\n"
           "exist already are not seen. The process must have been started with prof:true.\n"},
    {"off", "jeattach off [options] PID...\n"
            "\n"
            "Sets prof.active to false and reads it back; prints the former and the new value.\n"},
    {"dump",
     "jeattach dump [options] PID...\n"
     "\n"
     "Makes the process write its heap profile and prints the path by which it can be\n"
     "opened from here. By default jemalloc makes the name (opt.prof_prefix).\n"
     "\n"
     "      --path P        in the target: to this path (relative to its directory)\n"
     "  -o, --output FILE   streamed: nothing is created on the target's side, it needs\n"
     "                      no file, no descriptor, no room on a disk; FILE is written\n"
     "                      here, complete or not at all; - is stdout\n"
     "  -f, --format F      streamed, in another form than jemalloc's: as report has them,\n"
     "                      with the names of the very files that the target has mapped;\n"
     "                      without -o to stdout. All options of report but --base and\n"
     "                      --root go with it: jeattach report --help\n"},
    {"report",
     "jeattach report [options] FILE\n"
     "\n"
     "Shows a heap profile in jemalloc's own format, from anywhere; - is stdin. The numbers\n"
     "are estimates of what is in use, made from the samples as jeprof and pprof make them.\n"
     "No process is needed, but the binaries that it had mapped are.\n"
     "\n"
     "  -f, --format F      text        the functions, largest first (the default)\n"
     "                      flame       flame graph, one HTML file that works offline (.html)\n"
     "                      pprof       for go tool pprof and what reads its format (.pb.gz)\n"
     "                      folded      one stack a line, for other flame graphs (.folded)\n"
     "                      dot, svg    call graph; svg is drawn by Graphviz' dot\n"
     "                      raw         as jemalloc wrote it (.heap)\n"
     "                      symbolized  the same with names, for jeprof (.symbolized)\n"
     "                      Without it the end of the output's name tells.\n"
     "  -o, --output FILE   complete or not at all; - is stdout, the default\n"
     "      --base FILE     what has grown since this profile; ~ or grey: the sampling alone\n"
     "                      may have made it\n"
     "      --focus RE      only stacks with a call that matches; like the next three a regular\n"
     "                      expression for functions, source files and mapped files\n"
     "      --ignore RE     no stack with a call that matches\n"
     "      --hide RE       leave matching calls out of their stacks\n"
     "      --show RE       leave all others out\n"
     "      --by-thread     threads, by name, as the outermost calls\n"
     "      --allocator     keep the allocator's own calls\n"
     "      --value V       inuse_space (default), inuse_objects, alloc_space, alloc_objects\n"
     "      --unit U        auto (default), B, KiB, MiB, GiB\n"
     "      --rows N        of the table or graph at most; 0: all, however small\n"
     "      --root DIR      look for the binaries below it\n"
     "      --no-inlines    symbol tables only: faster, no inlined calls and no lines\n"
     "      --debuginfod    ask the servers of $DEBUGINFOD_URLS for debug information\n"
     "  -q, --quiet         say nothing of names that are missing\n"},
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
            fputs(helps[i].text, stdout);
            if (strcmp(verb, "report") != 0) /* it works on no process */
                puts("\nOptions of every verb: jeattach --help");
            return check();
        }
    return help_usage();
}

int help_usage(void)
{
    fputs("usage: jeattach status|on|off|dump [options] PID...   (jeattach --help)\n"
          "       jeattach report [options] FILE\n",
          stderr);
    return EXIT_USAGE;
}

int help_version(void)
{
    printf("jeattach %s\n", JEATTACH_VERSION);
    return check();
}
