#include "cli/help.h"
#include "cli/message.h"
#include "cli/several.h"
#include "cli/verbs/verbs.h"
#include "run/interrupt.h"
#include "run/output.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct verb {
    const char *name;
    verb_run run;
    unsigned takes;
} verbs[] = {
    {"on", verb_on, TAKES_ALLOW_RESET | TAKES_HOOKS},
    {"off", verb_off, 0},
    {"dump", verb_dump, TAKES_OUTPUT | TAKES_PATH | TAKES_FORMAT | TAKES_HOOKS},
    {"record", verb_record,
     TAKES_OUTPUT | TAKES_FORMAT | TAKES_DURATION | TAKES_SERIES | TAKES_HOOKS},
    {"leak", verb_leak, TAKES_OUTPUT | TAKES_FORMAT | TAKES_DURATION | TAKES_SETTLE | TAKES_HOOKS},
    {"report", verb_report, TAKES_OUTPUT | TAKES_FORMAT | TAKES_FILE},
    {"status", verb_status, TAKES_NO_CALL},
    {"mallctl", verb_mallctl, TAKES_NAMES | TAKES_HOOKS},
    {"reset", verb_reset, TAKES_LG_SAMPLE | TAKES_HOOKS},
    {"purge", verb_purge, TAKES_HOOKS},
    {"ps", verb_ps, TAKES_HOST},
    {"stats", verb_stats, TAKES_REPORT | TAKES_HOOKS},
    {"top", verb_top, TAKES_LIVE | TAKES_ONE | TAKES_HOOKS},
    {"watch", verb_watch, TAKES_OUTPUT | TAKES_RULES | TAKES_ONE | TAKES_HOOKS},
};

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

/* Also where the words before it were not understood. */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

static int run_parsed(const struct verb *verb, const struct options *options)
{
    if (verb->takes & (TAKES_HOST | TAKES_FILE))
        return verb->run(options, 0);
    if (verb->takes & TAKES_RULES && options_selective(options) && !options->dry_run)
        return verb->run(options, 0); /* it looks for the process by itself, again and again */
    return several_run(options, verb->name, verb->takes, verb->run);
}

/*
 * Words that only the verb itself could judge are told here; several processes
 * are told of one by one, and with -o - stdout is the profile's.
 */
static bool is_one_without_stream(const struct options *options)
{
    return options->pid_count <= 1 && !options_selective(options) &&
           !(options->output && strcmp(options->output, "-") == 0);
}

static int run_verb(const struct verb *verb, int argc, char **argv)
{
    struct options options;
    int code;

    if (!options_parse(&options, verb->takes, argc, argv)) {
        fprintf(stderr, "  fix:   jeattach %s --help\n", verb->name);
        if (asks_for_json(argc, argv))
            message_usage_json(verb->name);
        return EXIT_USAGE;
    }
    if (options.help)
        return help_print(verb->name);
    if (options.version)
        return help_version();
    code = run_parsed(verb, &options);
    if (code == EXIT_USAGE && options.json && is_one_without_stream(&options))
        message_usage_json(verb->name);
    return code;
}

/* A closed descriptor 0, 1 or 2 would be taken by the next file that is opened. */
static bool standard_streams_open(void)
{
    bool out_closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;

    for (int fd = open("/dev/null", O_RDWR); fd >= 0 && fd <= STDERR_FILENO;)
        fd = dup(fd);
    return !out_closed;
}

int main(int argc, char **argv)
{
    char *const all[] = {"ps", NULL};
    const struct verb *verb;

    if (!standard_streams_open()) {
        message("cannot write the output\n  cause: stdout is closed\n"
                "  fix:   nothing was done; run it with stdout open");
        return EXIT_OUTPUT;
    }
    interrupt_init();
    output_stdout_init();
    if (argc < 2)
        return run_verb(find_verb("ps"), 1, (char **)all);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help_print(argc > 2 ? argv[2] : NULL);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return help_version();
    verb = find_verb(argv[1]);
    if (!verb) {
        char clean[64];
        message("there is no verb '%s'", message_clean(argv[1], clean, sizeof clean));
        help_usage();
        return EXIT_USAGE;
    }
    return run_verb(verb, argc - 1, argv + 1);
}
