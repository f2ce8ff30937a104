#include "base/util.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/options_check.h"
#include "cli/output/stdout.h"
#include "cli/several.h"
#include "cli/verb_word.h"
#include "cli/verbs/verbs.h"
#include "host/priority.h"
#include "run/interrupt.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FILES_NEEDED = 64, FILES_WANTED = 65536 };

/* In the order of the overview. */
static const struct verb *const verbs[] = {
    &verb_ps,     &verb_explain, &verb_status, &verb_on,      &verb_off,  &verb_dump,
    &verb_record, &verb_leak,    &verb_report, &verb_stats,   &verb_frag, &verb_peek,
    &verb_top,    &verb_watch,   &verb_purge,  &verb_mallctl,
};

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

/* True even if the words before --json could not be parsed. */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

static int run_parsed(const struct verb *verb, const struct options *options)
{
    if (verb->takes & (TAKES_HOST | TAKES_FILE) || options->core)
        return verb->run(options, 0);
    if (verb->takes & TAKES_RULES && options_selective(options))
        return verb->run(options, 0); /* watch waits for the process itself, repeatedly */
    return several_run(options, verb);
}

/*
 * True if a usage error that only the verb could detect is to be printed as JSON here: with several
 * processes each has printed its own, and with -o - stdout is the profile.
 */
static bool is_one_without_stream(const struct options *options)
{
    return options->pid_count <= 1 && !options_selective(options) && !options_to_stdout(options);
}

static int run_verb(const struct verb *verb, int argc, char **argv)
{
    struct options options;
    char fix[OPTIONS_FIX];
    int code;

    if (!options_parse(&options, verb->takes, argc, argv)) {
        options_fix(&options, options.wrong, verb->name, fix, sizeof fix);
        fprintf(stderr, "  fix:   %s\n", fix);
        if (asks_for_json(argc, argv))
            message_usage_json(verb->name);
        return EXIT_USAGE;
    }
    if (options.help)
        return help_verb(verb);
    if (options.version)
        return help_version();
    if (!(verb->takes &
          TAKES_RULES)) /* watch waits for the memory to run out, and must live then */
        oom_score_volunteer();
    code = run_parsed(verb, &options);
    if (code == EXIT_USAGE && options.json && is_one_without_stream(&options))
        message_usage_json(verb->name);
    return code;
}

/*
 * Opens the closed ones of file descriptors 0, 1 and 2, which the next opened file would get.
 * False if stdout was closed.
 */
static bool standard_streams_open(void)
{
    bool out_closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;
    int fd = open("/dev/null", O_RDWR);

    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = dup(fd);
    util_close(&fd); /* the first that is not needed */
    return !out_closed;
}

/*
 * Several targets have a pidfd each, and page faults an event for each thread; the default limit
 * is often 1,024. False if not even one target could be examined.
 */
static bool files_suffice(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return true;
    if (limit.rlim_cur < FILES_WANTED) {
        limit.rlim_cur = limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur >= FILES_NEEDED;
}

/* Returns the exit code if it must not run; EXIT_DONE if it may. */
static int refuse_start(void)
{
    if (!standard_streams_open()) {
        message("cannot write the output\n  cause: stdout is closed\n"
                "  fix:   nothing was done; run jeattach with stdout open");
        return EXIT_OUTPUT;
    }
    if (getuid() != geteuid() || getgid() != getegid()) {
        message("cannot run with the rights of another user\n  cause: its file is set-user-ID or "
                "set-group-ID: whoever can run it could read and change other users' processes\n"
                "  fix:   remove that bit (chmod ug-s), and run it with sudo");
        return EXIT_DENIED;
    }
    if (!files_suffice()) {
        message("cannot examine a process\n  cause: fewer than %d files may be open\n"
                "  fix:   raise the limit: ulimit -n %d",
                FILES_NEEDED, 1024);
        return EXIT_INTERNAL;
    }
    return EXIT_DONE;
}

/* jeattach help [VERB] */
static int run_help(const char *name)
{
    const struct verb *verb = name ? find_verb(name) : NULL;

    if (!name || *name == '-')
        return help_overview(verbs, ARRAY_LEN(verbs));
    return verb ? help_verb(verb) : help_unknown_verb(name, verbs, ARRAY_LEN(verbs));
}

static bool look_up_verb(const char *word, unsigned *takes)
{
    const struct verb *verb = find_verb(word);

    *takes = verb ? verb->takes : 0;
    return verb;
}

/* Without a verb, the verb is ps, but its help would not be what was asked for. */
static int run_without_verb(int argc, char **argv)
{
    int code;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)
            return help_overview(verbs, ARRAY_LEN(verbs));
    code = run_verb(&verb_ps, argc, argv);
    if (code == EXIT_USAGE)
        message("no verb given, so the verb is ps; jeattach --help lists the others");
    return code;
}

static const struct verb *verb_behind(int argc, char **argv)
{
    const struct verb *verb = NULL;

    for (int i = 2; i < argc && !verb; i++)
        verb = find_verb(argv[i]);
    return verb;
}

/* The first word is no verb: a pid alone is to be explained, also with options; else a mistake. */
static int run_word(int argc, char **argv)
{
    const struct verb *verb = verb_behind(argc, argv);
    pid_t pid;
    int code;

    if (parse_pid(argv[1], &pid) && !verb)
        return run_verb(&verb_explain, argc, argv);
    if (parse_pid(argv[1], &pid))
        code = help_misplaced_pid(argv[1], verb->name);
    else
        code = help_unknown_verb(argv[1], verbs, ARRAY_LEN(verbs));
    if (asks_for_json(argc, argv))
        message_usage_json(NULL);
    return code;
}

/* Moves the word to the place before all options. */
static void move_to_front(char **argv, int from)
{
    char *word = argv[from];

    memmove(argv + 2, argv + 1, (size_t)(from - 1) * sizeof *argv);
    argv[1] = word;
}

static int run_words(int argc, char **argv)
{
    int at = verb_word_find(argc, argv, look_up_verb);
    const struct verb *verb;

    if (!at)
        return run_without_verb(argc, argv);
    move_to_front(argv, at);
    if (strcmp(argv[1], "help") == 0)
        return run_help(argv[2]);
    verb = find_verb(argv[1]);
    return verb ? run_verb(verb, argc - 1, argv + 1) : run_word(argc, argv);
}

/*
 * A thread that is stopped would wait until the core is written. 0 does not keep the kernel from
 * starting the program of a core_pattern that begins with a pipe, 1 does (fs/coredump.c). Programs
 * that the tool starts need no core dump either.
 */
static void avoid_core_dump(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max >= 1) {
        limit.rlim_cur = 1;
        (void)setrlimit(RLIMIT_CORE, &limit);
    }
}

int main(int argc, char **argv)
{
    int code = refuse_start();

    if (code != EXIT_DONE)
        return code;
    avoid_core_dump();
    interrupt_init(EXIT_INTERRUPTED);
    stdout_init();
    return run_words(argc, argv);
}
