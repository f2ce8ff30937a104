#include "cli/options.h"
#include "cli/message.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { PID_LIMIT = 4 << 20 }; /* PID_MAX_LIMIT, include/linux/threads.h */
enum { OPT_JSON = 256, OPT_TIMEOUT, OPT_THREAD, OPT_PATH, OPT_DRY_RUN, OPT_NO_CALL };
enum { OPT_LIST = 0x300, OPT_LG_SAMPLE };
enum { OPT_FULL = 0x400, OPT_PROMETHEUS, OPT_ALLOW_RESET, OPT_ALLOW_SLOW };
enum { LG_SAMPLE_MAX = 63 }; /* what jemalloc clamps it to (prof_reset_ctl) */

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
    {"list", no_argument, NULL, OPT_LIST},
    {"lg-sample", required_argument, NULL, OPT_LG_SAMPLE},
    {"no-call", no_argument, NULL, OPT_NO_CALL},
    {"version", no_argument, NULL, 'V'},
    {"full", no_argument, NULL, OPT_FULL},
    {"prometheus", no_argument, NULL, OPT_PROMETHEUS},
    {"allow-slow", no_argument, NULL, OPT_ALLOW_SLOW},
    {"allow-reset", no_argument, NULL, OPT_ALLOW_RESET},
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

static bool add_name(struct options *options, const char *text)
{
    if (options->name_count == OPTIONS_NAMES_MAX) {
        message("at most %d names at once", OPTIONS_NAMES_MAX);
        return false;
    }
    options->names[options->name_count++] = text;
    return true;
}

/* Where names are taken, the first word is the process if no option has named it. */
static bool add_word(struct options *options, unsigned takes, const char *text)
{
    if (takes & TAKES_NAMES && options->pid_count > 0)
        return add_name(options, text);
    return add_pid(options, text);
}

static bool parse_lg_sample(const char *text, int *lg_sample)
{
    size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 2 || text[n] != '\0' || atoi(text) > LG_SAMPLE_MAX)
        return false;
    *lg_sample = atoi(text);
    return true;
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
    case OPT_LG_SAMPLE:
        if (parse_lg_sample(optarg, &options->lg_sample))
            return true;
        message("'%s' is not the logarithm of a sampling period: use 0 to %d; 19 is 512 KiB",
                optarg, LG_SAMPLE_MAX);
        return false;
    case 'p':
        return add_pid(options, optarg);
    case 'o':
        options->output = optarg;
        return true;
    default:
        options->path = optarg;
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

/* The options that some verbs have: by those that they need, or that they exclude. */
static bool option_belongs(unsigned takes, int option)
{
    static const struct {
        int option;
        unsigned needs, excludes;
        const char *name;
    } rows[] = {
        {'o', TAKES_OUTPUT, 0, "-o"},
        {OPT_PATH, TAKES_PATH, 0, "--path"},
        {OPT_NO_CALL, TAKES_NO_CALL, 0, "--no-call"},
        {OPT_LIST, TAKES_NAMES, 0, "--list"},
        {OPT_LG_SAMPLE, TAKES_LG_SAMPLE, 0, "--lg-sample"},
        {OPT_FULL, TAKES_REPORT, 0, "--full"},
        {OPT_PROMETHEUS, TAKES_REPORT, 0, "--prometheus"},
        {OPT_ALLOW_SLOW, TAKES_REPORT, 0, "--allow-slow"},
        {OPT_ALLOW_RESET, TAKES_ALLOW_RESET, 0, "--allow-reset"},
        {'p', 0, TAKES_HOST, "-p"},
        {OPT_THREAD, 0, TAKES_HOST, "--thread"},
        {OPT_DRY_RUN, 0, TAKES_HOST, "--dry-run"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].option != option)
            continue;
        if ((takes & rows[i].needs) == rows[i].needs && !(takes & rows[i].excludes))
            return true;
        message("this verb has no option %s", rows[i].name);
        return false;
    }
    return true;
}

/* A word that is there or not. */
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
    case OPT_LIST:
        return &options->list;
    case OPT_FULL:
        return &options->full;
    case OPT_PROMETHEUS:
        return &options->prometheus;
    case OPT_NO_CALL:
        return &options->no_call;
    case OPT_ALLOW_SLOW:
        return &options->allow_slow;
    case OPT_ALLOW_RESET:
        return &options->allow_reset;
    default:
        return NULL;
    }
}

static bool take_option(struct options *options, unsigned takes, int option, char **argv)
{
    bool *flag = flag_of(options, option);

    if (!option_belongs(takes, option))
        return false;
    if (flag) {
        *flag = true;
        return true;
    }
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

/* Options that exclude each other. */
static bool options_agree(const struct options *options)
{
    if (options->output && options->path) {
        message("-o writes here, --path in the target: use one of them");
        return false;
    }
    if (options->dry_run && options->no_call) {
        message("--dry-run tells the calls, --no-call makes none: use one of them");
        return false;
    }
    if (options->dry_run && options->json) {
        message("--dry-run has no --json");
        return false;
    }
    if (options->json + options->full + options->prometheus > 1) {
        message("--json, --full and --prometheus are three forms: use one of them");
        return false;
    }
    if (options->prometheus && options->pid_count > 1) {
        message("--prometheus goes with one process: its metrics may be described only once");
        return false;
    }
    if (options->no_call && options->thread) {
        message("--no-call holds no thread: leave --thread out");
        return false;
    }
    if (options->dry_run && (options->full || options->prometheus)) {
        message("--dry-run shows the calls alone: leave --full and --prometheus out");
        return false;
    }
    if (options->pid_count > 1 && (options->output || options->path || options->thread)) {
        message("-o, --path and --thread go with one process");
        return false;
    }
    return true;
}

static bool options_consistent(const struct options *options, unsigned takes)
{
    if (takes & TAKES_HOST && options->pid_count > 0) {
        message("this verb is about all processes and takes no pid");
        return false;
    }
    if (!(takes & TAKES_HOST) && options->pid_count == 0) {
        message("which process? Give its pid");
        return false;
    }
    if (takes & TAKES_NAMES && options->name_count == 0 && !options->list) {
        message("which name? Give one, or --list");
        return false;
    }
    return options_agree(options);
}

bool options_parse(struct options *options, unsigned takes, int argc, char **argv)
{
    int option;

    memset(options, 0, sizeof *options);
    options->timeout_ns = 30ull * 1000000000;
    options->lg_sample = -1;
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":o:p:qvhV", long_options, NULL)) != -1)
        if (!take_option(options, takes, option, argv))
            return false;
    for (; optind < argc; optind++)
        if (!add_word(options, takes, argv[optind]))
            return false;
    return options->help || options->version || options_consistent(options, takes);
}
