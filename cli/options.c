#include "cli/options.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/message.h"
#include "run/filename.h"

#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { PID_LIMIT = 4 << 20 }; /* PID_MAX_LIMIT, include/linux/threads.h */
enum { LG_SAMPLE_MAX = 63 };  /* what jemalloc clamps it to (prof_reset_ctl) */
enum { NUMBER_MAX = 1000000, INTERVAL_LEAST = 100000000 /* nanoseconds */ };

enum kind { FLAG, COUNT, TEXT, DURATION, NUMBER, PID, THREAD, INSTANCE, LG_SAMPLE, PARALLEL, RULE };

/* Every option: where its value goes, and which verbs have it. */
struct row {
    const char *name;
    char letter; /* '\0': none */
    enum kind kind;
    size_t offset;     /* into struct options */
    unsigned needs;    /* TAKES_*: one of these; 0: every verb has it, except */
    unsigned excludes; /* those with one of these */
};

#define AT(member) offsetof(struct options, member)
#define NO_TARGET  (TAKES_FILE | TAKES_HOST)

static const struct row rows[] = {
    {"help", 'h', FLAG, AT(help), 0, 0},
    {"version", 'V', FLAG, AT(version), 0, 0},
    {"quiet", 'q', FLAG, AT(quiet), 0, 0},
    {"verbose", 'v', COUNT, AT(verbose), 0, 0},
    {"pid", 'p', PID, 0, 0, NO_TARGET},
    {"name", 'n', TEXT, AT(name), 0, TAKES_FILE},
    {"container", '\0', TEXT, AT(container), 0, TAKES_FILE},
    {"cgroup", '\0', TEXT, AT(cgroup), 0, TAKES_FILE},
    {"all", '\0', FLAG, AT(all), 0, NO_TARGET | TAKES_ONE},
    {"subprocesses", 's', FLAG, AT(subprocesses), 0, NO_TARGET | TAKES_ONE},
    {"parallel", '\0', PARALLEL, AT(parallel), 0, NO_TARGET | TAKES_ONE},
    {"thread", '\0', THREAD, AT(thread), 0, NO_TARGET},
    {"instance", '\0', INSTANCE, AT(instance), 0, NO_TARGET},
    {"dry-run", '\0', FLAG, AT(dry_run), 0, NO_TARGET},
    {"json", '\0', FLAG, AT(json), 0, 0},
    {"timeout", '\0', DURATION, AT(timeout_ns), 0, TAKES_FILE},
    {"output", 'o', TEXT, AT(output), TAKES_OUTPUT, 0},
    {"path", '\0', TEXT, AT(path), TAKES_PATH, 0},
    {"duration", 'd', DURATION, AT(duration_ns), TAKES_DURATION, 0},
    {"settle", '\0', DURATION, AT(settle_ns), TAKES_SETTLE, 0},
    {"every", '\0', DURATION, AT(every_ns), TAKES_SERIES, 0},
    {"count", '\0', NUMBER, AT(count), TAKES_SERIES | TAKES_LIVE, 0},
    {"keep", '\0', NUMBER, AT(keep), TAKES_SERIES | TAKES_RULES, 0},
    {"interval", 'd', DURATION, AT(interval_ns), TAKES_LIVE, 0},
    {"share", '\0', NUMBER, AT(share), TAKES_LIVE, 0},
    {"once", '\0', FLAG, AT(once), TAKES_LIVE | TAKES_RULES, 0},
    {"sort", '\0', TEXT, AT(report.sort), TAKES_LIVE, 0},
    {"no-call", '\0', FLAG, AT(no_call), TAKES_NO_CALL, 0},
    {"force-hooks", '\0', FLAG, AT(force_hooks), TAKES_HOOKS, 0},
    {"allow-reset", '\0', FLAG, AT(allow_reset), TAKES_ALLOW_RESET, 0},
    {"lg-sample", '\0', LG_SAMPLE, AT(lg_sample), TAKES_LG_SAMPLE, 0},
    {"list", '\0', FLAG, AT(list), TAKES_NAMES, 0},
    {"full", '\0', FLAG, AT(full), TAKES_REPORT, 0},
    {"prometheus", '\0', FLAG, AT(prometheus), TAKES_REPORT, 0},
    {"allow-slow", '\0', FLAG, AT(allow_slow), TAKES_REPORT, 0},
    {"when", '\0', RULE, 0, TAKES_RULES, 0},
    {"max", '\0', NUMBER, AT(watch.max), TAKES_RULES, 0},
    {"cooldown", '\0', DURATION, AT(watch.cooldown_ns), TAKES_RULES, 0},
    {"on", '\0', FLAG, AT(watch.on), TAKES_RULES, 0},
    {"base", '\0', TEXT, AT(base), TAKES_FILE, 0},
    {"root", '\0', TEXT, AT(report.root), TAKES_FILE, 0},
    {"format", 'f', TEXT, AT(report.format), TAKES_FORMAT, 0},
    {"focus", '\0', TEXT, AT(report.focus), TAKES_FORMAT | TAKES_LIVE, 0},
    {"ignore", '\0', TEXT, AT(report.ignore), TAKES_FORMAT | TAKES_LIVE, 0},
    {"hide", '\0', TEXT, AT(report.hide), TAKES_FORMAT | TAKES_LIVE, 0},
    {"show", '\0', TEXT, AT(report.show), TAKES_FORMAT | TAKES_LIVE, 0},
    {"unit", '\0', TEXT, AT(report.unit), TAKES_FORMAT, 0},
    {"value", '\0', TEXT, AT(report.value), TAKES_FORMAT, 0},
    {"rows", '\0', TEXT, AT(report.rows), TAKES_FORMAT | TAKES_LIVE, 0},
    {"by-thread", '\0', FLAG, AT(report.by_thread), TAKES_FORMAT, 0},
    {"debuginfod", '\0', FLAG, AT(report.debuginfod), TAKES_FORMAT | TAKES_LIVE, 0},
    {"no-inlines", '\0', FLAG, AT(report.no_inlines), TAKES_FORMAT | TAKES_LIVE, 0},
    {"allocator", '\0', FLAG, AT(report.keep_allocator), TAKES_FORMAT | TAKES_LIVE, 0},
};

enum { FIRST_KEY = 256 }; /* of getopt_long(3), for the row with index 0 */

/* The same, as getopt_long(3) wants it. */
struct getopt_words {
    struct option longs[ARRAY_LEN(rows) + 1];
    char letters[2 * ARRAY_LEN(rows) + 2];
};

static bool has_value(enum kind kind)
{
    return kind != FLAG && kind != COUNT;
}

static void fill_words(struct getopt_words *words)
{
    char *letter = words->letters;

    memset(words, 0, sizeof *words);
    *letter++ = ':'; /* a value that is missing is told from an option that there is not */
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int argument = has_value(rows[i].kind) ? required_argument : no_argument;
        words->longs[i] = (struct option){rows[i].name, argument, NULL, FIRST_KEY + (int)i};
        if (!rows[i].letter)
            continue;
        *letter++ = rows[i].letter;
        if (argument == required_argument)
            *letter++ = ':';
    }
}

static bool has_row(unsigned takes, const struct row *row)
{
    return (!row->needs || (takes & row->needs)) && !(takes & row->excludes);
}

/* A letter may mean one thing with one verb and another with another. */
static const struct row *find_row(unsigned takes, int key)
{
    const struct row *found = NULL;

    if (key >= FIRST_KEY)
        return &rows[key - FIRST_KEY];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].letter && rows[i].letter == key && (!found || has_row(takes, &rows[i])))
            found = &rows[i];
    return found;
}

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

static bool add_rule(struct options *options, const char *text)
{
    if (options->watch.rule_count == OPTIONS_RULES_MAX) {
        message("at most %d rules at once", OPTIONS_RULES_MAX);
        return false;
    }
    options->watch.rules[options->watch.rule_count++] = text;
    return true;
}

static bool set_file(struct options *options, const char *text)
{
    if (options->file) {
        message("one profile at a time; --base names the one to compare it with");
        return false;
    }
    options->file = text;
    return true;
}

bool options_selective(const struct options *options)
{
    return options->name || options->container || options->cgroup || options->all ||
           options->subprocesses;
}

/* Where names follow the process: is the first word that one? Not if an option has said it. */
static bool wants_pid(const struct options *options)
{
    return options->pid_count == 0 && (options->subprocesses || !options_selective(options));
}

static bool add_word(struct options *options, unsigned takes, const char *text)
{
    if (takes & TAKES_FILE)
        return set_file(options, text);
    if (takes & TAKES_NAMES && !wants_pid(options))
        return add_name(options, text);
    return add_pid(options, text);
}

static bool parse_parallel(const char *text, int *parallel)
{
    size_t n = strspn(text, "0123456789");

    *parallel = n > 0 && n < 4 && text[n] == '\0' ? atoi(text) : 0;
    return *parallel > 0 && *parallel <= OPTIONS_PARALLEL_MAX;
}

static bool parse_lg_sample(const char *text, int *lg_sample)
{
    size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 2 || text[n] != '\0' || atoi(text) > LG_SAMPLE_MAX)
        return false;
    *lg_sample = atoi(text);
    return true;
}

static bool parse_number(const char *text, unsigned *number)
{
    size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 7 || text[n] != '\0' || atoi(text) < 1 || atoi(text) > NUMBER_MAX)
        return false;
    *number = (unsigned)atoi(text);
    return true;
}

/* Says what would have been right; false, for the caller. */
static bool tell_wrong_value(enum kind kind, const char *text)
{
    char clean[64];

    message_clean(text, clean, sizeof clean);
    if (kind == DURATION)
        message("'%s' is not a duration: use 500ms, 30s, 5m, 1h", clean);
    else if (kind == NUMBER)
        message("'%s' is not a number: use 1 to %d", clean, NUMBER_MAX);
    else if (kind == THREAD)
        message("'%s' is not a thread id", clean);
    else if (kind == PARALLEL)
        message("'%s' is not a number of processes at once: use 1 to %d", clean,
                OPTIONS_PARALLEL_MAX);
    else if (kind == INSTANCE)
        message("'%s' is not the number of an instance: jeattach status tells them", clean);
    else
        message("'%s' is not the logarithm of a sampling period: use 0 to %d; 19 is 512 KiB", clean,
                LG_SAMPLE_MAX);
    return false;
}

static bool take_value(struct options *options, const struct row *row, const char *text)
{
    void *at = (char *)options + row->offset;
    bool good = true;

    switch (row->kind) {
    case FLAG:
        *(bool *)at = true;
        break;
    case COUNT:
        ++*(int *)at;
        break;
    case TEXT:
        *(const char **)at = text;
        break;
    case PID:
        return add_pid(options, text);
    case THREAD:
    case INSTANCE:
        good = parse_pid(text, at);
        break;
    case DURATION:
        good = units_parse_duration(text, at);
        break;
    case NUMBER:
        good = parse_number(text, at);
        break;
    case LG_SAMPLE:
        good = parse_lg_sample(text, at);
        break;
    case PARALLEL:
        good = parse_parallel(text, at);
        break;
    case RULE:
        return add_rule(options, text);
    }
    return good || tell_wrong_value(row->kind, text);
}

/* getopt(3) names a letter, which may stand among others, in optopt. */
static void tell_unknown(const char *word)
{
    char clean[64], letter[3] = {'-', (char)optopt, '\0'};

    message("there is no option '%s'",
            message_clean(optopt > 0 && optopt < FIRST_KEY ? letter : word, clean, sizeof clean));
}

static bool take_option(struct options *options, unsigned takes, int key, const char *word)
{
    const struct row *row;

    if (key == ':' || key == '?') {
        if (key == ':')
            message("option %s needs a value", word);
        else
            tell_unknown(word);
        return false;
    }
    row = find_row(takes, key);
    if (has_row(takes, row))
        return take_value(options, row, optarg);
    if (row->letter)
        message("this verb has no option -%c", row->letter);
    else
        message("this verb has no option --%s", row->name);
    return false;
}

static const char *wrong_with_file(const struct options *options)
{
    if (!options->file)
        return "which profile? Give its file, or - for stdin";
    if (options->base && strcmp(options->file, "-") == 0 && strcmp(options->base, "-") == 0)
        return "only one of the two profiles can come from stdin";
    if (options->json && strcmp(options->report.format, "json") != 0)
        return "--json is a form of its own: leave -f out";
    return NULL;
}

/* One thread, one file, one instance, one description: they are of one process. */
const char *options_wrong_with_several(const struct options *options, unsigned takes)
{
    if (takes & TAKES_ONE)
        return "this verb works on one process at a time";
    if (options->path || options->thread || options->instance)
        return "--path, --thread and --instance go with one process";
    if (options->output && (takes & TAKES_SETTLE || !filename_is_of_each(options->output)))
        return "-o FILE is of one process, unless FILE is a directory or has %p in its name";
    if (options->prometheus)
        return "--prometheus goes with one process: its metrics may be described only once";
    return NULL;
}

static bool is_empty(const char *text)
{
    return text && !*text;
}

/* Is it said, and once, which processes are meant? */
static const char *wrong_with_choice(const struct options *options)
{
    bool pids = options->pid_count > 0;

    if (is_empty(options->name) || is_empty(options->container) || is_empty(options->cgroup))
        return "-n, --container and --cgroup want a text that is not empty";
    if (options->subprocesses && !pids)
        return "-s is about a process and its descendants: give its pid";
    if (pids && options_selective(options) && !options->subprocesses)
        return "a pid says it all: leave -n, --container, --cgroup and --all out, or use -s";
    if (!pids && !options_selective(options))
        return "which process? Give its pid, or -n NAME";
    return NULL;
}

static const char *wrong_with_host(const struct options *options)
{
    if (options->pid_count)
        return "this verb is about all processes and takes no pid";
    return options_selective(options) ? wrong_with_choice(options) : NULL;
}

static const char *wrong_with_dry_run(const struct options *options)
{
    if (options->no_call)
        return "--dry-run tells the calls, --no-call makes none: use one of them";
    if (options->json)
        return "--dry-run has no --json";
    if (options->full || options->prometheus)
        return "--dry-run shows the calls alone: leave --full and --prometheus out";
    return NULL;
}

static const char *wrong_with_live(const struct options *options)
{
    if (options->interval_ns < INTERVAL_LEAST)
        return "the shortest interval is 100ms";
    if (options->share > 100)
        return "--share is a percentage: 1 to 100";
    return options->once && options->count ? "--once is --count 1: use one of them" : NULL;
}

static const char *wrong_with_rules(const struct options *options)
{
    if (!options->watch.rule_count)
        return "when? Give a rule, as --when 'rss>80%'";
    if (!options->output)
        return "where to? Give a directory with -o";
    return NULL;
}

static const char *wrong_with_process(const struct options *options, unsigned takes)
{
    if (wrong_with_choice(options))
        return wrong_with_choice(options);
    if (takes & TAKES_NAMES && options->name_count == 0 && !options->list)
        return "which name? Give one, or --list";
    if (options->output && options->path)
        return "-o writes here, --path in the target: use one of them";
    if (options->json + options->full + options->prometheus > 1)
        return "--json, --full and --prometheus are three forms: use one of them";
    if (takes & TAKES_LIVE && wrong_with_live(options))
        return wrong_with_live(options);
    if (options->no_call && options->thread)
        return "--no-call holds no thread: leave --thread out";
    if (takes & TAKES_RULES && wrong_with_rules(options))
        return wrong_with_rules(options);
    if (options->dry_run && wrong_with_dry_run(options))
        return wrong_with_dry_run(options);
    if ((options->count || options->keep) && !options->every_ns && takes & TAKES_SERIES)
        return "--count and --keep are of a series: say --every too";
    return options->pid_count > 1 ? options_wrong_with_several(options, takes) : NULL;
}

/* What is wrong with the words together; NULL: nothing. */
static const char *inconsistent(const struct options *options, unsigned takes)
{
    if (options->help || options->version)
        return NULL;
    if (takes & TAKES_FILE)
        return wrong_with_file(options);
    if (takes & TAKES_HOST)
        return wrong_with_host(options);
    return wrong_with_process(options, takes);
}

bool options_parse(struct options *options, unsigned takes, int argc, char **argv)
{
    struct getopt_words words;
    const char *wrong;
    int key;

    memset(options, 0, sizeof *options);
    options->timeout_ns = 30ull * 1000000000;
    options->interval_ns = 2ull * 1000000000;
    options->share = 1;
    options->lg_sample = -1;
    options->watch = (struct watch_options){.cooldown_ns = 600ull * 1000000000, .max = 3};
    optind = 1;
    opterr = 0;
    fill_words(&words);
    while ((key = getopt_long(argc, argv, words.letters, words.longs, NULL)) != -1)
        if (!take_option(options, takes, key, argv[optind - 1]))
            return false;
    for (; optind < argc; optind++)
        if (!add_word(options, takes, argv[optind]))
            return false;
    if ((takes & TAKES_FILE) && options->json && !options->report.format)
        options->report.format = "json";
    /* A profile in another form is streamed: to stdout, if nothing else is said. */
    if (!options->output && !options->every_ns && (options->report.format || (takes & TAKES_FILE)))
        options->output = "-";
    wrong = inconsistent(options, takes);
    if (wrong)
        message("%s", wrong);
    return !wrong;
}
