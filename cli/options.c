#include "cli/options.h"
#include "cli/message.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { PID_LIMIT = 4 << 20 }; /* PID_MAX_LIMIT, include/linux/threads.h */
enum {
    OPT_JSON = 256,
    OPT_TIMEOUT,
    OPT_THREAD,
    OPT_PATH,
    OPT_DRY_RUN,
    OPT_BASE,
    OPT_FOCUS,
    OPT_IGNORE,
    OPT_HIDE,
    OPT_SHOW,
    OPT_UNIT,
    OPT_VALUE,
    OPT_ROWS,
    OPT_ROOT,
    OPT_BY_THREAD,
    OPT_DEBUGINFOD,
    OPT_NO_INLINES,
    OPT_ALLOCATOR,
};

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"pid", required_argument, NULL, 'p'},
    {"quiet", no_argument, NULL, 'q'},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {"json", no_argument, NULL, OPT_JSON},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"thread", required_argument, NULL, OPT_THREAD},
    {"path", required_argument, NULL, OPT_PATH},
    {"dry-run", no_argument, NULL, OPT_DRY_RUN},
    {"version", no_argument, NULL, 'V'},
    {"format", required_argument, NULL, 'f'},
    {"base", required_argument, NULL, OPT_BASE},
    {"focus", required_argument, NULL, OPT_FOCUS},
    {"ignore", required_argument, NULL, OPT_IGNORE},
    {"hide", required_argument, NULL, OPT_HIDE},
    {"show", required_argument, NULL, OPT_SHOW},
    {"unit", required_argument, NULL, OPT_UNIT},
    {"value", required_argument, NULL, OPT_VALUE},
    {"rows", required_argument, NULL, OPT_ROWS},
    {"root", required_argument, NULL, OPT_ROOT},
    {"by-thread", no_argument, NULL, OPT_BY_THREAD},
    {"debuginfod", no_argument, NULL, OPT_DEBUGINFOD},
    {"no-inlines", no_argument, NULL, OPT_NO_INLINES},
    {"allocator", no_argument, NULL, OPT_ALLOCATOR},
    {NULL, 0, NULL, 0},
};

bool parse_pid(const char *text, pid_t *pid)
{
    unsigned long value = 0;

    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9')
            return false;
        value = value * 10 + (unsigned long)(*p - '0');
        if (value > PID_LIMIT)
            return false;
    }
    *pid = (pid_t)value;
    return value > 0;
}

bool parse_duration(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    size_t digits = strspn(text, "0123456789."); /* strtod(3) takes more: 0x10, 1e9, inf */
    char *end = NULL;
    double value = digits ? strtod(text, &end) : 0;

    if (*text == '.' || end != text + digits)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        double seconds = value * units[i].seconds;
        if (strcmp(text + digits, units[i].unit) != 0)
            continue;
        *ns = seconds <= 24 * 3600 ? (uint64_t)(seconds * 1e9) : 0;
        return *ns > 0 && seconds <= 24 * 3600;
    }
    return false;
}

static bool add_pid(struct options *options, const char *text)
{
    if (options->pid_count == OPTIONS_PIDS_MAX) {
        message("at most %d processes at once", OPTIONS_PIDS_MAX);
        return false;
    }
    if (!parse_pid(text, &options->pids[options->pid_count])) {
        char clean[64];
        message("'%s' is not a process id", message_clean(text, clean, sizeof clean));
        return false;
    }
    options->pid_count++;
    return true;
}

/* The options that only keep a text. */
static const char **text_of(struct options *options, int option)
{
    switch (option) {
    case 'o':
        return &options->output;
    case OPT_PATH:
        return &options->path;
    case OPT_BASE:
        return &options->base;
    case 'f':
        return &options->report.format;
    case OPT_FOCUS:
        return &options->report.focus;
    case OPT_IGNORE:
        return &options->report.ignore;
    case OPT_HIDE:
        return &options->report.hide;
    case OPT_SHOW:
        return &options->report.show;
    case OPT_UNIT:
        return &options->report.unit;
    case OPT_VALUE:
        return &options->report.value;
    case OPT_ROWS:
        return &options->report.rows;
    default:
        return &options->report.root;
    }
}

static bool take_value(struct options *options, int option)
{
    switch (option) {
    case OPT_TIMEOUT:
        if (parse_duration(optarg, &options->timeout_ns))
            return true;
        message("'%s' is not a duration: use 500ms, 30s, 5m, 1h", optarg);
        return false;
    case OPT_THREAD:
        if (parse_pid(optarg, &options->thread))
            return true;
        message("'%s' is not a thread id", optarg);
        return false;
    case 'p':
        return add_pid(options, optarg);
    default:
        *text_of(options, option) = optarg;
        return true;
    }
}

/* getopt(3) names a letter, which may stand among others, in optopt. */
static void tell_unknown(const char *word)
{
    char clean[64], letter[3] = {'-', (char)optopt, '\0'};

    message("there is no option '%s'",
            message_clean(optopt > 0 && optopt < 256 ? letter : word, clean, sizeof clean));
}

/* Which verbs an option is of; 0: of all that work on a process. */
static unsigned verbs_of(int option)
{
    switch (option) {
    case 'o':
        return TAKES_OUTPUT;
    case OPT_PATH:
        return TAKES_PATH;
    case OPT_BASE:
    case OPT_ROOT:
        return TAKES_FILE;
    default:
        return option == 'f' || option > OPT_BASE ? TAKES_FORMAT : 0;
    }
}

static bool is_of_process(int option)
{
    return option == 'p' || (option >= OPT_JSON && option <= OPT_DRY_RUN);
}

static bool is_known(unsigned takes, int option)
{
    unsigned verbs = verbs_of(option);
    const struct option *known = long_options;

    if (option == '?' || option == ':')
        return true;
    if (!((takes & TAKES_FILE) && is_of_process(option)) && (!verbs || (takes & verbs)))
        return true;
    while (known->val != option)
        known++;
    message("this verb has no option --%s", known->name);
    return false;
}

/* The options that only say yes; NULL: it is none. */
static bool *flag_of(struct options *options, int option)
{
    switch (option) {
    case 'q':
        return &options->quiet;
    case 'h':
        return &options->help;
    case 'V':
        return &options->version;
    case OPT_JSON:
        return &options->json;
    case OPT_DRY_RUN:
        return &options->dry_run;
    case OPT_BY_THREAD:
        return &options->report.by_thread;
    case OPT_DEBUGINFOD:
        return &options->report.debuginfod;
    case OPT_NO_INLINES:
        return &options->report.no_inlines;
    case OPT_ALLOCATOR:
        return &options->report.keep_allocator;
    default:
        return NULL;
    }
}

static bool take_option(struct options *options, unsigned takes, int option, char **argv)
{
    bool *flag = flag_of(options, option);

    if (!is_known(takes, option))
        return false;
    if (flag)
        return *flag = true;
    switch (option) {
    case 'v':
        options->verbose++;
        return true;
    case ':':
        message("option %s needs a value", argv[optind - 1]);
        return false;
    case '?':
        tell_unknown(argv[optind - 1]);
        return false;
    default:
        return take_value(options, option);
    }
}

/* A word that is no option. */
static bool take_word(struct options *options, unsigned takes, const char *word)
{
    if (!(takes & TAKES_FILE))
        return add_pid(options, word);
    if (options->file) {
        message("one profile at a time; --base names the one to compare it with");
        return false;
    }
    options->file = word;
    return true;
}

static bool file_consistent(const struct options *options)
{
    if (!options->file) {
        message("which profile? Give its file, or - for stdin");
        return false;
    }
    if (options->base && strcmp(options->file, "-") == 0 && strcmp(options->base, "-") == 0) {
        message("only one of the two profiles can come from stdin");
        return false;
    }
    return true;
}

static bool options_consistent(const struct options *options)
{
    if (options->pid_count == 0) {
        message("which process? Give its pid");
        return false;
    }
    if (options->output && options->path) {
        message("-o writes here, --path in the target: use one of them");
        return false;
    }
    if (options->dry_run && options->json) {
        message("--dry-run has no --json");
        return false;
    }
    if (options->pid_count > 1 && (options->output || options->path || options->thread)) {
        message("-o, --path and --thread go with one process");
        return false;
    }
    return true;
}

bool options_parse(struct options *options, unsigned takes, int argc, char **argv)
{
    int option;

    memset(options, 0, sizeof *options);
    options->timeout_ns = 30ull * 1000000000;
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":o:p:f:qvhV", long_options, NULL)) != -1)
        if (!take_option(options, takes, option, argv))
            return false;
    for (; optind < argc; optind++)
        if (!take_word(options, takes, argv[optind]))
            return false;
    /* A profile that is shown in another form is streamed; where to, is stdout if nothing is said.
     */
    if (!options->output && (options->report.format || (takes & TAKES_FILE)))
        options->output = "-";
    if (options->help || options->version)
        return true;
    return (takes & TAKES_FILE) ? file_consistent(options) : options_consistent(options);
}
