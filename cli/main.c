#include "base/util.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/operand.h"
#include "cli/option_table.h"
#include "cli/output/stdout.h"
#include "cli/several.h"
#include "cli/verbs/verbs.h"
#include "host/priority.h"
#include "run/interrupt.h"
#include "run/outfile.h"

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

/* compares: two profiles are not added up. */
static int run_words(const struct verb *verb, int argc, char **argv, bool compares)
{
    struct options options;
    char fix[OPTIONS_FIX];
    bool one;
    int code;

    if (!options_parse(&options, verb->takes, argc, argv)) {
        options_fix(&options, options.wrong, verb->name, fix, sizeof fix);
        fprintf(stderr, "  fix:   %s\n", fix);
        if (asks_for_json(argc, argv))
            message_usage_json(verb->name);
        return EXIT_USAGE;
    }
    if (compares && options.more_count == 1 && !options.base) {
        options.base = options.file;
        options.file = options.more[0];
        options.more_count = 0;
    }
    if (options.help)
        return help_verb(verb);
    if (options.version)
        return help_version();
    if (!(verb->takes &
          TAKES_RULES)) /* watch waits for the memory to run out, and must live then */
        oom_score_volunteer();

    if (options_names_directory(&options, verb->takes))
        outfile_make_directory(options.output);
    one = options.pid_count <= 1 && !options_selective(&options);
    if (verb->takes & (TAKES_HOST | TAKES_FILE) || options.core ||
        /* watch waits for the process itself, repeatedly */
        (verb->takes & TAKES_RULES && options_selective(&options))) {
        code = verb->run(&options, 0);
    } else {
        if (verb->announce && !options.quiet)
            verb->announce(&options);
        code = one ? verb->run(&options, options.pids[0]) : several_run(&options, verb);
    }

    /*
     * A usage error that only the verb could detect: with several processes each has printed its
     * own as JSON, and with -o - stdout is the profile.
     */
    if (code == EXIT_USAGE && options.json && one && !options_to_stdout(&options))
        message_usage_json(verb->name);
    return code;
}

static int run_verb(const struct verb *verb, int argc, char **argv)
{
    return run_words(verb, argc, argv, false);
}

/* Returns the exit code if it must not run; EXIT_DONE if it may. */
static int refuse_start(void)
{
    bool out_closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;
    int fd = open("/dev/null", O_RDWR);
    struct rlimit limit;

    /* The closed ones of file descriptors 0, 1 and 2 would go to the next opened file. */
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = dup(fd);
    util_close(&fd); /* the first that is not needed */
    if (out_closed) {
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

    /* Several targets have a pidfd each, and page faults an event for each thread; the default
     * limit is often 1,024. */
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return EXIT_DONE;
    if (limit.rlim_cur < FILES_WANTED) {
        limit.rlim_cur = limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < FILES_NEEDED) {
        message("cannot examine a process\n  cause: fewer than %d files may be open\n"
                "  fix:   raise the limit: ulimit -n %d",
                FILES_NEEDED, 1024);
        return EXIT_INTERNAL;
    }
    return EXIT_DONE;
}

static bool look_up_verb(const char *word, unsigned *takes)
{
    const struct verb *verb = find_verb(word);

    *takes = verb ? verb->takes : 0;
    return verb;
}

/* Without a verb and a process, the verb is ps, but its help would not be what was asked for. */
static int run_without_verb(int argc, char **argv)
{
    int code;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)
            return help_overview(verbs, ARRAY_LEN(verbs));
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "-p", 2) == 0 || strncmp(argv[i], "--pid", 5) == 0)
            return run_verb(&verb_explain, argc, argv);
    code = run_verb(&verb_ps, argc, argv);
    if (code == EXIT_USAGE)
        message("no verb given, so the verb is ps; jeattach --help lists the others");
    return code;
}

/*
 * The first word is no verb: a process, or what is left of one, is to be explained, also with
 * options, and a profile to be shown. A name next to other words, or like a verb, is a mistake.
 */
static int run_word(int argc, char **argv)
{
    const enum operand kind = operand_of(argv[1]);
    const struct verb *verb = NULL; /* behind the word */
    int code;

    for (int i = 2; i < argc && !verb; i++)
        verb = find_verb(argv[i]);
    if (verb && kind != OPERAND_NONE) {
        code = help_misplaced_operand(argv[1], kind == OPERAND_PROFILE ? "report" : verb->name);
    } else if (kind == OPERAND_PROFILE) {
        return run_words(&verb_report, argc, argv, true);
    } else if (kind == OPERAND_PID || kind == OPERAND_CORE ||
               (kind == OPERAND_NAME && (argc < 3 || *argv[2] == '-') &&
                !help_resembles_verb(argv[1], verbs, ARRAY_LEN(verbs)))) {
        code = run_verb(&verb_explain, argc, argv);
        if (code == EXIT_GONE && kind == OPERAND_NAME)
            message(
                access(argv[1], F_OK) == 0
                    ? "the file of that name is no core file and no heap profile that this user "
                      "may read, and that is this user's or root's"
                    : "it is no verb and no file, either: jeattach --help lists the verbs");
        return code;
    } else {
        code = help_unknown_verb(argv[1], verbs, ARRAY_LEN(verbs));
    }
    if (asks_for_json(argc, argv))
        message_usage_json(NULL);
    return code;
}

int main(int argc, char **argv)
{
    int at, code = refuse_start();
    const struct verb *verb;
    struct rlimit limit;
    char *word;

    if (code != EXIT_DONE)
        return code;
    /*
     * A thread that is stopped would wait until the core is written. 0 does not keep the kernel
     * from starting the program of a core_pattern that begins with a pipe, 1 does (fs/coredump.c).
     * Programs that the tool starts need no core dump either.
     */
    if (getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max >= 1) {
        limit.rlim_cur = 1;
        (void)setrlimit(RLIMIT_CORE, &limit);
    }
    interrupt_init(EXIT_INTERRUPTED);
    stdout_init();

    at = verb_word_find(argc, argv, look_up_verb);
    if (!at)
        return run_without_verb(argc, argv);
    word = argv[at]; /* moves to the place before all options */
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof *argv);
    argv[1] = word;
    verb = find_verb(word);
    if (verb)
        return run_verb(verb, argc - 1, argv + 1);
    if (strcmp(word, "help") != 0)
        return run_word(argc, argv);

    /* jeattach help [VERB] */
    word = argv[2];
    if (!word || *word == '-')
        return help_overview(verbs, ARRAY_LEN(verbs));
    verb = find_verb(word);
    return verb ? help_verb(verb) : help_unknown_verb(word, verbs, ARRAY_LEN(verbs));
}
