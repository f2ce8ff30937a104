#include "cli/help.h"
#include "cli/message.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char overview[] =
    "jeattach VERB [options] PID...\n"
    "jeattach report [options] FILE\n"
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
    "  record   sample for a while, write a profile, leave all as it was; or a series\n"
    "  leak     what grows meanwhile, by stack, the largest growth first\n"
    "  report   show a profile from a file: table, flame graph, pprof, ...\n"
    "  stats    where its memory is: jemalloc's counts beside the RSS\n"
    "  top      the same as it changes, with the allocation sites that hold it\n"
    "  watch    a profile before it is too late: at a size, near a limit, under pressure\n"
    "  reset    drop what was sampled so far, perhaps change the sampling period\n"
    "  purge    give memory that jemalloc keeps unused back to the kernel\n"
    "  mallctl  read or write any setting or counter of jemalloc's, by its name\n"
    "\n"
    "Which process, in place of its pid (of several given, all must hold):\n"
    "  -n, --name NAME     its comm, or the last part of the path of its program or argv[0]\n"
    "      --container ID  in this container; 4 digits of the id do if they are unique\n"
    "      --cgroup PATH   in this control group or one below it\n"
    "  -s, --subprocesses  PID... and its descendants\n"
    "      --all           all that match, not just the only one; alone: all on this host\n"
    "      --parallel N    do so many at a time (default 4; record and leak: all)\n"
    "Only processes that use jemalloc are meant. If several match without --all or -s they\n"
    "are listed, none is touched, and the exit code is 2.\n"
    "\n"
    "Options of every verb:\n"
    "  -p, --pid PID       the process, as an option\n"
    "      --timeout D     for all that is done to a process: 500ms, 30s, 5m (default 30s)\n"
    "      --thread TID    use this thread only\n"
    "      --instance N    this jemalloc, of several in the process (see status)\n"
    "      --dry-run       say what would be called, where and in which thread\n"
    "      --json          the result as one JSON object, of several processes a line each;\n"
    "                      an error as {\"error\": {...}}\n"
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
    {"status",
     "jeattach status [options] PID...\n"
     "\n"
     "Shows which jemalloc a process uses, whether profiling is compiled in\n"
     "(config.prof), was enabled at start (opt.prof) and is active now (prof.active),\n"
     "the sampling period, where its options came from, a verdict and the one next\n"
     "step. What the memory of the process does not tell is asked by read-only calls.\n"
     "Several jemallocs in one process are listed; the one that serves malloc is meant\n"
     "unless --instance N says another.\n"
     "\n"
     "The line 'attach:' says whether the other verbs may attach, without trying it: the\n"
     "one cause that forbids it and the fix for the place where the tool runs. The exit\n"
     "code is 4 if a call was needed and is refused; what memory tells is shown anyway.\n"
     "\n"
     "      --no-call       make none and stop nothing; what is then unknown is a ?\n"},
    {"ps", "jeattach ps [-n NAME] [--container ID] [--cgroup PATH] [--json] [--timeout D]\n"
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
           "exist already are not seen. The process must have been started with prof:true.\n"
           "\n"
           "jemalloc 5.2.0 and 5.2.1 do not sample in threads that allocated while it was\n"
           "false. There each thread is held once, and its count of bytes until the next\n"
           "sample drawn anew; exit 7 if some could not be reached.\n"
           "\n"
           "      --allow-reset   with these versions, if they were built without statistics:\n"
           "                      prof.reset may be called; it drops what was sampled so far\n"},
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
     "                      here, complete or not at all; - is stdout. A directory, or %p,\n"
     "                      %n, %t, ... in the name: a new file for each process, see record\n"
     "  -f, --format F      streamed, in another form than jemalloc's: as report has them,\n"
     "                      with the names of the very files that the target has mapped;\n"
     "                      without -o to stdout. All options of report but --base and\n"
     "                      --root go with it: jeattach report --help\n"},
    {"record",
     "jeattach record [options] PID\n"
     "\n"
     "Switches profiling on, waits, takes a profile, gives prof.active its former value back\n"
     "and reads it back. The profile is streamed: nothing is created on the target's side.\n"
     "Prints the path of the file.\n"
     "\n"
     "  -d, --duration D    how long: 30s (default), 5m, 1h\n"
     "  -o, --output FILE   - is stdout. What is there is never replaced. In its name are\n"
     "                      replaced: %n name, %p pid, %P pid in its own namespace, %t time\n"
     "                      (UTC), %r RSS, %h host, %% a percent sign; a directory gets the\n"
     "                      default, %n-%p-%t-%r.heap. Where that name is taken: x-1.heap\n"
     "  -f, --format F      as dump has it, with all of its options\n"
     "      --every D       a series: a profile each D, until -d, --count or Ctrl-C\n"
     "      --count N       so many of them\n"
     "      --keep N        the last N of them alone; older ones of this series are removed\n"
     "      --timeout D     for each of its holds (default 30s)\n"
     "  -v, --verbose       also says how to undo it, should jeattach be killed\n"
     "\n"
     "Ctrl-C (or SIGTERM) ends it early, with what was sampled until then: exit 130. A second\n"
     "one gives the former state back without a result; a third leaves at once. Between its\n"
     "holds nothing is held. If it is killed by SIGKILL, the target goes on, with profiling\n"
     "on: jeattach off PID.\n"},
    {"leak",
     "jeattach leak [options] PID\n"
     "\n"
     "Takes a profile, samples for a while, takes another, gives prof.active its former value\n"
     "back; shows what has grown, by stack, the largest growth first: bytes, twice the\n"
     "standard deviation of the sampling, objects, bytes per second; beside stats.allocated of\n"
     "both ends. What was allocated before sampling began has no stack: how much of all that\n"
     "is allocated the samples cover is said.\n"
     "\n"
     "  -d, --duration D    how long: 60s (default), 5m, 1h\n"
     "      --settle D      then off for so long before the second profile: what lives but a\n"
     "                      short time is freed meanwhile, what leaks is not\n"
     "  -o, --output FILE   the difference also to this file; - is stdout, instead. What is\n"
     "                      there is not replaced\n"
     "  -f, --format F      its form: text, flame, pprof, folded, dot, svg, json\n"
     "      --rows N        of the table at most (default 10); 0: all, however small\n"
     "\n"
     "The other options of report go with it: jeattach report --help. Ctrl-C ends it early, as\n"
     "record: exit 130.\n"},
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
     "                      json        the functions and the largest stacks, for programs\n"
     "                      raw         as jemalloc wrote it (.heap)\n"
     "                      symbolized  the same with names, for jeprof (.symbolized)\n"
     "                      Without it the end of the output's name tells.\n"
     "      --json          as -f json, and an error as {\"error\": {...}}\n"
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
    {"stats", "jeattach stats [options] PID...\n"
              "\n"
              "Shows what jemalloc counts beside what the kernel counts, in rows that add up to\n"
              "the RSS: in use, fragmentation, dirty pages, metadata, what is not jemalloc's.\n"
              "\n"
              "      --json         jemalloc's own report in JSON, byte for byte as\n"
              "                     malloc_stats_print(\"J\") gives it (since 4.3)\n"
              "      --full         the same as jemalloc's text\n"
              "      --prometheus   the rows as metrics\n"
              "      --allow-slow   --json and --full also of jemalloc before 5.3 under a seccomp\n"
              "                     filter, where they hold a thread for seconds\n"},
    {"top",
     "jeattach top [options] PID\n"
     "\n"
     "Shows, again and again, what jemalloc counts beside the RSS, with rates per second,\n"
     "and the allocation sites that hold the most or grow the fastest. A site is the\n"
     "innermost four calls of a stack; its size is estimated from jemalloc's samples, and a\n"
     "growth marked ~ is within the error of that. One thread is held once for each refresh;\n"
     "how long is shown. Where that would be more than 1 % of the time (--share), refreshes\n"
     "become rarer by themselves, which is shown too.\n"
     "\n"
     "Without profiling there are the gauges alone, and what to do about it.\n"
     "\n"
     "  -d, --interval D    between two refreshes: 2s unless said, 100ms at least\n"
     "      --count N       end after N refreshes\n"
     "      --once          one look, and no rates: --count 1 without taking the terminal\n"
     "      --share N       percent of the time that a thread may be held: 1 unless said\n"
     "      --sort BY       cur: by what a site holds (default); growth\n"
     "      --rows N        sites at most; elsewhere than on a terminal 20, 0: all\n"
     "      --json          an object a line, one for each refresh\n"
     "      --focus RE, --ignore RE, --hide RE, --show RE, --allocator, --no-inlines,\n"
     "      --debuginfod    which calls are seen, as report has them\n"
     "\n"
     "On a terminal q and Ctrl-C end it, s sorts by the other column. The exit code is then\n"
     "0, or 130 if --count asked for more; 3 if the process ends.\n"},
    {"watch",
     "jeattach watch [options] PID --when RULE... -o DIR\n"
     "jeattach watch [options] -n NAME|--container ID|--cgroup PATH --when RULE... -o DIR\n"
     "\n"
     "Waits until a rule holds, then streams a profile into DIR: NAME-PID-TIME-RSS.watch.heap,\n"
     "complete or not at all, nothing is overwritten. Prints its path on stdout, and one line\n"
     "for each event on stderr. A rule is quoted, for the shell takes > for itself:\n"
     "\n"
     "  'rss>2G' 'rss>80%'       resident memory; of the smallest memory limit on the way to\n"
     "                           the root of its control group, else of the machine's memory\n"
     "  'cgroup>85%'             of the control group nearest to its limit, else the machine;\n"
     "                           inactive pages of files are not counted; 'cgroup>2G': of its\n"
     "                           own group\n"
     "  'psi.some>20%/10s'       time that some task of its group, else of the host, waited\n"
     "                           for memory, of a window; psi.full: that all did\n"
     "  'grow>20%/10m'           resident memory beyond its least in the window, which the\n"
     "                           process must have lived for; 'grow>1G/1h'\n"
     "\n"
     "      --max N         profiles of one process at most (default 3)\n"
     "      --cooldown D    until the same rule fires again, if it still holds (default 10m)\n"
     "      --keep N        files of this process name that stay in DIR, older ones of watch\n"
     "                      are removed (default 10)\n"
     "      --once          end after the first profile\n"
     "      --on            switch profiling on at the start, and back at the end\n"
     "      --json          a line on stdout for each event\n"
     "\n"
     "Exit code 0 when it has made all its profiles, 3 when the process has ended, 130 after\n"
     "SIGTERM or Ctrl-C, 6 if it cannot profile, 9 if DIR takes no more. With -n and the like\n"
     "it waits for the next process of that name instead, whatever comes of this one.\n"},
    {"reset", "jeattach reset [options] PID...\n"
              "\n"
              "Drops all that was sampled so far (prof.reset); prints prof.lg_sample, the\n"
              "logarithm of the sampling period, before and after. Profiling stays on or off.\n"
              "\n"
              "      --lg-sample N   sample every 2^N bytes on average from now on: 0 to 63;\n"
              "                      19 is 512 KiB, jemalloc's default\n"},
    {"purge", "jeattach purge [options] PID...\n"
              "\n"
              "Makes jemalloc give the pages back to the kernel that it keeps for later use, of\n"
              "each arena (arena.<i>.purge); prints its resident memory and that of the process\n"
              "before and after. Memory in use is not touched. The thread that does it is held\n"
              "meanwhile: the more there is to give back, the longer.\n"},
    {"mallctl",
     "jeattach mallctl [options] PID NAME[=VALUE]...\n"
     "jeattach mallctl [options] PID --list [PATTERN]...\n"
     "\n"
     "Reads, writes or does what jemalloc knows by a name, up to 20 in one stop; a name\n"
     "that was written is read back. Statistics (stats.*) are brought up to date first.\n"
     "All names are checked before the first is used: what would crash the process, free\n"
     "memory in use, or act on a thread by chance is refused, with the reason.\n"
     "\n"
     "  VALUE      true or false; a number; a size may end in K, M, G or T; a text\n"
     "  --list     with their values: names that cost nothing to read; with a PATTERN\n"
     "             (* and ?) all that match: 'opt.*', 'stats.arenas.0.bins.3.*'\n"
     "  NAME:TYPE  a name of opt.* or config.* that is newer than this program: bool,\n"
     "             unsigned, size_t, ssize_t, uint64_t, int64_t or string\n"
     "\n"
     "Names of thread.* are those of the one thread that is held (see --thread).\n"},
};

/* The verbs whose calls may run functions of the application's (options.h, TAKES_HOOKS). */
static bool has_hooks(const char *verb)
{
    static const char *const without[] = {"status", "ps", "off", "report"};

    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (strcmp(verb, without[i]) == 0)
            return false;
    return true;
}

static const char hooks[] =
    "\n"
    "      --force-hooks   make the call even if functions of the application may run in it\n"
    "                      (extent hooks of its arenas, a hook for finished dumps); if one\n"
    "                      takes a lock that the held thread has, both wait for ever\n";

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
            if (has_hooks(verb))
                fputs(hooks, stdout);
            if (strcmp(verb, "report") != 0) /* it works on no process */
                puts("\nOptions of every verb: jeattach --help");
            return check();
        }
    return help_usage();
}

int help_usage(void)
{
    fputs("usage: jeattach ps|status|on|off|dump|record|leak|watch|stats|top|reset|purge|mallctl "
          "[options] PID...\n"
          "       jeattach report [options] FILE   (jeattach --help)\n",
          stderr);
    return EXIT_USAGE;
}

int help_version(void)
{
    printf("jeattach %s\n", JEATTACH_VERSION);
    return check();
}
