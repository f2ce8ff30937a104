#include "cli/options.h"
#include "base/suggest.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/message.h"
#include "cli/operand.h"
#include "cli/option_table.h"
#include "run/filename.h"
#include "run/output.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PID_LIMIT = 4 << 20 }; /* PID_MAX_LIMIT, include/linux/threads.h */
enum { NUMBER_MAX = 1000000, FIRST_KEY = 256 /* getopt_long(3)'s for the first row */ };
enum { INTERVAL_MIN_NS = 100000000 };
#define INTERVAL_NS 2000000000ull /* of top */

/* The table of options in the form that getopt_long(3) expects. */
struct getopt_table {
    struct option longs[OPTION_ROWS_MAX + 1];
    char letters[2 * OPTION_ROWS_MAX + 2];
};

static size_t add_rows(struct getopt_table *table, size_t count, unsigned takes, bool taken)
{
    char *letter = table->letters + strlen(table->letters);

    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        int argument = row->kind == OPTION_FLAG ? no_argument : required_argument;
        if (option_is_taken(takes, row) != taken || (!taken && option_find(takes, row->name)))
            continue;
        table->longs[count++] = (struct option){row->name, argument, NULL, FIRST_KEY + (int)i};
        if (!row->letter)
            continue;
        *letter++ = row->letter;
        if (argument == required_argument)
            *letter++ = ':';
    }
    return count;
}

bool options_is_series(const struct options *options)
{
    return options->every_ns || options->every_bytes || options->on_new_peak;
}

bool options_to_stdout(const struct options *options)
{
    return options->output && strcmp(options->output, "-") == 0;
}

bool options_names_directory(const struct options *options, unsigned takes)
{
    const char *output = options->output;

    return takes & (TAKES_PATH | TAKES_SERIES | TAKES_RULES) && output &&
           !options_to_stdout(options) && !filename_has_directives(output) &&
           (takes & TAKES_RULES || (*output && output[strlen(output) - 1] == '/'));
}

bool options_selective(const struct options *options)
{
    return options->name || options->container || options->cgroup || options->all ||
           options->subprocesses;
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
        message("too many processes: at most %d", OPTIONS_PIDS_MAX);
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

static bool add_text(const char **list, size_t *count, size_t most, const char *text,
                     const char *things, const char *where)
{
    if (*count == most) {
        message("too many %s: at most %zu%s", things, most, where);
        return false;
    }
    list[(*count)++] = text;
    return true;
}

/* Words with commas between them. */
static bool parse_allowed(const char *text, unsigned *allow)
{
    static const char *const words[] = {"hooks", "reset", "slow"}; /* in the order of ALLOW_* */
    size_t len, i;

    for (;; text += len + 1) {
        len = strcspn(text, ",");
        for (i = 0; i < ARRAY_LEN(words); i++)
            if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0)
                break;
        if (i == ARRAY_LEN(words))
            return false;
        *allow |= 1u << i;
        if (!text[len])
            return true;
    }
}

/* Parses a value; prints what its right form is, and returns false, if it has another. */
static bool parse_value(enum option_kind kind, const char *text, void *at)
{
    const size_t digits = strspn(text, "0123456789"), octal = strspn(text, "01234567");
    const bool whole = digits > 0 && digits <= 7 && !text[digits];
    const char *rest;
    char clean[64];

    message_clean(text, clean, sizeof clean);
    switch (kind) {
    case OPTION_DURATION:
        if (units_parse_duration(text, at))
            return true;
        message("'%s' is not a duration: must be like 500ms, 30s, 5m or 1h, at most 24h", clean);
        break;
    case OPTION_NUMBER:
        if (whole && atoi(text) >= 1 && atoi(text) <= NUMBER_MAX) {
            *(unsigned *)at = (unsigned)atoi(text);
            return true;
        }
        message("'%s' is not a number from 1 to %d", clean, NUMBER_MAX);
        break;
    case OPTION_BYTES:
        if (units_parse_bytes(text, at, &rest) && !*rest && *(uint64_t *)at)
            return true;
        message("'%s' is not a size: must be like 512M or 1GiB", clean);
        break;
    case OPTION_PARALLEL:
        if (whole && digits < 4 && atoi(text) >= 1 && atoi(text) <= OPTIONS_PARALLEL_MAX) {
            *(int *)at = atoi(text);
            return true;
        }
        message("'%s' is not a number of processes: must be 1 to %d", clean, OPTIONS_PARALLEL_MAX);
        break;
    case OPTION_MODE:
        if (octal > 0 && octal <= 4 && !text[octal] && strtol(text, NULL, 8) <= 0777) {
            *(int *)at = (int)strtol(text, NULL, 8);
            return true;
        }
        message("'%s' is not a mode: must be octal, 0 to 777, such as 640", clean);
        break;
    case OPTION_ALLOW:
        if (parse_allowed(text, at))
            return true;
        message("'%s' cannot be allowed: must be hooks, reset or slow", clean);
        break;
    default: /* OPTION_THREAD, OPTION_INSTANCE */
        if (parse_pid(text, at))
            return true;
        if (kind == OPTION_THREAD)
            message("'%s' is not a thread id", clean);
        else
            message("'%s' is not an instance number: jeattach status lists the instances", clean);
        break;
    }
    return false;
}

static bool set_value(struct options *options, const struct option_row *row, const char *text)
{
    void *at = (char *)options + row->offset;

    options->given[row - option_rows] = true;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)at = true;
        break;
    case OPTION_TEXT:
        *(const char **)at = text;
        break;
    case OPTION_PID:
        return add_pid(options, text);
    case OPTION_BETWEEN:
        return add_text(options->between, &options->between_count, OPTIONS_BETWEEN_MAX, text,
                        "profiles", " with --between");
    case OPTION_RULE:
        return add_text(options->watch.rules, &options->watch.rule_count, OPTIONS_RULES_MAX, text,
                        "rules", "");
    default:
        return parse_value(row->kind, text, at);
    }
    return true;
}

/* A process by its pid or name, or the core file of one: the value of an option without it. */
static bool add_process(struct options *options, unsigned takes, const char *text)
{
    const enum operand kind = operand_of(text);
    uint64_t ignored;
    char clean[256];

    message_clean(text, clean, sizeof clean);
    if (options->core && kind == OPERAND_CORE) {
        message("'%s' is a second core file: at most one can be given", clean);
        return false;
    }
    if ((options->name || options->pid_count) && kind == OPERAND_NAME) {
        message("'%s' is no pid, and the process is given already", clean);
        options->instead = takes & TAKES_RULES    ? "--when 'RULE', in quotes"
                           : takes & TAKES_OUTPUT ? "to write it: -o"
                                                  : NULL;
        options->instead_word = takes & TAKES_RULES || !options->instead ? NULL : text;
        return false;
    }
    if (kind == OPERAND_NONE && takes & (TAKES_DURATION | TAKES_REFRESH) &&
        units_parse_duration(text, &ignored)) {
        message("'%s' is not a process id", clean);
        options->instead = "for a duration: -d";
        options->instead_word = text;
        return false;
    }
    if (kind == OPERAND_PROFILE || (kind == OPERAND_CORE && !(takes & TAKES_CORE))) {
        message("%s is a %s, and this verb needs a process", clean,
                kind == OPERAND_CORE ? "core file" : "heap profile");
        options->instead = kind == OPERAND_CORE ? "jeattach explain" : "jeattach report";
        options->instead_word = text;
        return false;
    }
    return set_value(options,
                     option_find(takes & TAKES_CORE, kind == OPERAND_NAME   ? "name"
                                                     : kind == OPERAND_CORE ? "core"
                                                                            : "pid"),
                     text);
}

static bool add_word(struct options *options, unsigned takes, const char *text)
{
    const bool pid_known =
        options->pid_count > 0 || (options_selective(options) && !options->subprocesses);

    if (takes & TAKES_FILE) {
        if (options->file)
            return add_text(options->more, &options->more_count, OPTIONS_BETWEEN_MAX, text,
                            "profiles", "");
        options->file = text;
        return true;
    }
    if (takes & TAKES_NAMES && pid_known)
        return add_text(options->names, &options->name_count, OPTIONS_NAMES_MAX, text, "names", "");
    return add_process(options, takes, text);
}

/* Options that no verb has any more, or not this one. */
static const char *instead_of(const char *name)
{
    static const struct {
        const char *name, *instead;
    } gone[] = {
        {"call", "leave it out (jeattach stats --full prints jemalloc's own report, by a call)"},
        {"reset", "jeattach mallctl PID prof.reset=19, which drops all samples taken so far"},
        {"lg-sample", "jeattach mallctl PID prof.reset=19, which drops all samples taken so far"},
        {"interval", "--every D"},
        {"max", "--count N"},
        {"force-hooks", "--allow hooks"},
        {"allow-reset", "--allow reset"},
        {"allow-slow", "--allow slow"},
        {"share", "leave it out: top reads memory, and stops no thread for that"},
        {"freeze", "leave it out: a profile is read from memory, and no thread is stopped"},
        {"dry-run", "jeattach status PID shows whether a call is possible"},
    };

    for (size_t i = 0; i < ARRAY_LEN(gone); i++)
        if (strcmp(gone[i].name, name) == 0)
            return gone[i].instead;
    return NULL;
}

static void report_unknown_name(struct options *options, unsigned takes, const char *word)
{
    char clean[64], name[64], similar[128];
    struct suggestion suggestion;
    bool begun = false; /* options begin with it */

    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    suggest_begin(&suggestion, name);
    for (size_t i = 0; i < option_row_count; i++)
        if (option_is_taken(takes, &option_rows[i])) {
            suggest_consider(&suggestion, option_rows[i].name);
            begun = begun || strncmp(option_rows[i].name, name, strlen(name)) == 0;
        }
    options->instead = instead_of(name);
    suggest_text(&suggestion, "--", similar, sizeof similar);
    if (options->instead)
        similar[0] = '\0';
    message("%s option '--%s'%s%s%s", begun ? "ambiguous" : "unknown",
            message_clean(name, clean, sizeof clean), *similar ? ": did you mean " : "", similar,
            *similar ? "?" : "");
}

static bool apply_option(struct options *options, unsigned takes, int key, const char *word)
{
    const struct option_row *row = NULL;

    if (key == ':') {
        message("option %s requires a value", word);
        return false;
    }
    if (key == '?' && optopt > 0 && optopt < FIRST_KEY) {
        /* getopt(3) returns the letter, which can be one of several in a word, in optopt. */
        char clean[8], letter[3] = {'-', (char)optopt, '\0'};
        message("unknown option '%s'", message_clean(letter, clean, sizeof clean));
        return false;
    }
    if (key == '?') {
        report_unknown_name(options, takes, word);
        return false;
    }
    if (key >= FIRST_KEY)
        row = &option_rows[key - FIRST_KEY];
    /* A letter can mean one option with one verb and another with another. */
    for (size_t i = 0; key < FIRST_KEY && i < option_row_count; i++)
        if (option_rows[i].letter && option_rows[i].letter == key &&
            (!row || option_is_taken(takes, &option_rows[i])))
            row = &option_rows[i];
    if (option_is_taken(takes, row))
        return set_value(options, row, optarg);
    if (row->letter)
        message("this verb has no option -%c", row->letter);
    else
        message("this verb has no option --%s", row->name);
    options->instead = instead_of(row->name);
    return false;
}

/* ---- what contradicts each other, or lacks ---- */

static bool is_empty_text(const char *text)
{
    return text && !*text;
}

static const char *wrong_with_file(const struct options *options)
{
    if (!options->file)
        return "no profile given: give a file, or - for stdin";
    if (options->base && strcmp(options->file, "-") == 0 && strcmp(options->base, "-") == 0)
        return "only one of the two profiles can come from stdin";
    for (size_t i = 0; i < options->between_count; i++)
        if (strcmp(options->between[i], "-") == 0)
            return "a profile given with --between cannot come from stdin";
    if (options->json && strcmp(options->report.format, "json") != 0)
        return "--json cannot be combined with another format (-f)";
    return NULL;
}

static const char one_output[] =
    "-o FILE works with one process only, unless FILE is a directory (DIR/) or contains %p";

const char *options_wrong_with_several(const struct options *options, unsigned takes)
{
    if (takes & TAKES_ONE)
        return "this verb works on one process at a time";
    if (options->path || options->thread || options->instance)
        return "--path, --thread and --instance work with one process only";
    if (options->output && takes & TAKES_SETTLE)
        return "-o FILE works with one process only";
    if (options->output && !filename_is_of_each(options->output))
        return one_output;
    return NULL;
}

bool options_is_plain_word(const char *text)
{
    return !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "%+,-./:=@_")];
}

const char *options_fix(const struct options *options, const char *wrong, const char *verb,
                        char *out, size_t size)
{
    if (options->instead)
        snprintf(out, size, "%s%s%s", options->instead, options->instead_word ? " " : "",
                 !options->instead_word                         ? ""
                 : options_is_plain_word(options->instead_word) ? options->instead_word
                                                                : "FILE");
    else if (wrong != one_output)
        snprintf(out, size, "jeattach %s --help", verb);
    else if (options_is_plain_word(options->output) && strcmp(options->output, "-") != 0)
        snprintf(out, size, "-o '%%n-%%p.heap'; or a directory: -o %s/", options->output);
    else
        snprintf(out, size, "-o '%%n-%%p.heap', or -o DIR/");
    return out;
}

/* Returns an error in the choice of processes; NULL: none. */
static const char *wrong_with_choice(const struct options *options)
{
    bool pids = options->pid_count > 0;

    if (is_empty_text(options->name) || is_empty_text(options->container) ||
        is_empty_text(options->cgroup))
        return "-n, --container and --cgroup require a value that is not empty";
    if (pids && options_selective(options) && !options->subprocesses)
        return "a PID cannot be combined with -n, --container, --cgroup or --all, except with -s";
    if (!pids && !options_selective(options))
        return "no process given: give a pid or a name, as jeattach ps shows them";
    return NULL;
}

/* Returns an error in the values of the options of a core file; NULL: none. */
static const char *wrong_with_core(const struct options *options)
{
    if (is_empty_text(options->core))
        return "--core requires a file, or - for stdin";
    if (options->output && filename_has_directives(options->output))
        return "with --core, -o names one file, without %p, %n, %t, ...";
    if (options->json && options_to_stdout(options))
        return "--json requires -o FILE: both would write to stdout";
    return NULL;
}

static const char *wrong_with_process(const struct options *options, unsigned takes)
{
    const char *wrong = options->core ? wrong_with_core(options) : wrong_with_choice(options);

    if (wrong || options->core)
        return wrong;
    if (takes & TAKES_NAMES && options->name_count == 0 && !options->list)
        return "no name given: give at least one, or --list";
    if (takes & TAKES_REFRESH && options->every_ns < INTERVAL_MIN_NS)
        return "--every must be at least 100ms";
    if (options->allow & ALLOW_RESET && !(takes & TAKES_ALLOW_RESET))
        return "--allow reset is for jeattach on";
    if (options->allow & ALLOW_SLOW && !(takes & TAKES_STATS))
        return "--allow slow is for jeattach stats --full";
    if (options->no_call && takes & TAKES_PATH && !options->output)
        return "--no-call requires -o FILE: without -o the process writes the profile, by a call";
    if (takes & TAKES_RULES && !options->watch.rule_count)
        return "no rule given: add one, such as --when 'rss>80%'";
    if (takes & TAKES_RULES && !options->output && !options->watch.command)
        return "nothing to do when a rule holds: add -o DIR for profiles, or --exec COMMAND";
    return options->pid_count > 1 ? options_wrong_with_several(options, takes) : NULL;
}

/* ---- options that exclude or require each other ---- */

#define SERIES "every every-bytes on-new-peak"
#define CHOICE "name container cgroup all"

/* Names of options, separated by blanks. */
static const struct conflict {
    unsigned takes;                          /* of these verbs (TAKES_*); 0: of all */
    const char *given, *excludes, *requires; /* one of given, with one of the others or without */
    const char *words;
} conflicts[] = {
    {0, "call", "no-call", NULL, "--call and --no-call exclude each other"},
    {0, "no-call", "thread", NULL,
     "--no-call cannot be combined with --thread: it stops no thread"},
    {0, "no-call", "full", NULL,
     "--no-call and --full exclude each other: only a call makes jemalloc's report"},
    {TAKES_PATH, "path", "output format", NULL,
     "-o and --path exclude each other: -o writes here, --path in the target"},
    {TAKES_STATS, "rows sort", NULL, "bins", "--rows and --sort require --bins"},
    {TAKES_STATS, "bins", "threads full", NULL,
     "--bins cannot be combined with --threads or --full"},
    {TAKES_STATS, "bins", "core", NULL, "--bins requires a running process, not --core"},
    {TAKES_STATS, "prometheus", "json full", NULL, "--prometheus excludes --json and --full"},
    {TAKES_STATS, "threads", "full prometheus", NULL,
     "--threads cannot be combined with --full or --prometheus"},
    {TAKES_REFRESH | TAKES_RULES, "once", "count", NULL, "--once and --count exclude each other"},
    {TAKES_SERIES, "every", "every-bytes on-new-peak", NULL,
     "--every, --every-bytes and --on-new-peak exclude each other"},
    {TAKES_SERIES, "every-bytes", "on-new-peak", NULL,
     "--every, --every-bytes and --on-new-peak exclude each other"},
    {TAKES_SERIES, "step", NULL, "on-new-peak", "--step requires --on-new-peak"},
    {TAKES_SERIES, "count keep", NULL, SERIES,
     "--count and --keep require --every, --every-bytes or --on-new-peak"},
    {TAKES_FILE, "between", NULL, "base",
     "--between requires --base: it is for profiles between the two"},
    {TAKES_CORE, "exe root", NULL, "core", "--exe and --root require --core"},
    {TAKES_CORE, "core", "pid subprocesses " CHOICE, NULL,
     "--core reads a process that has ended: it cannot be combined with a PID, -n, --container, "
     "--cgroup, --all or -s"},
    {TAKES_CORE, "core", "path thread allow call full threads duration", NULL,
     "--path, --thread, --threads, --call, --allow, --full and -d require a running process, "
     "not --core"},
    {TAKES_RULES, "on keep mode call no-call", NULL, "output",
     "--on, --keep, --mode, --call and --no-call require -o DIR: they are for profiles"},
    {0, "subprocesses", NULL, "pid", "-s requires a PID: it adds the descendants of that process"},
};

static bool is_given(const struct options *options, const char *name, size_t len)
{
    for (size_t i = 0; i < option_row_count; i++)
        if (options->given[i] && strlen(option_rows[i].name) == len &&
            memcmp(option_rows[i].name, name, len) == 0)
            return true;
    return false;
}

static bool any_given(const struct options *options, const char *names)
{
    for (size_t len; *names; names += len + (names[len] == ' ')) {
        len = strcspn(names, " ");
        if (is_given(options, names, len))
            return true;
    }
    return false;
}

static const char *find_conflict(const struct options *options, unsigned takes)
{
    for (size_t i = 0; i < ARRAY_LEN(conflicts); i++) {
        const struct conflict *row = &conflicts[i];
        if ((!row->takes || takes & row->takes) && any_given(options, row->given) &&
            (row->excludes ? any_given(options, row->excludes)
                           : !any_given(options, row->requires)))
            return row->words;
    }
    return NULL;
}

/* Returns the first inconsistency, as the text of a usage error; NULL: there is none. */
static const char *inconsistency(const struct options *options, unsigned takes)
{
    const char *output = options->output;
    const bool named = output && strcmp(output, "-") != 0;

    const char *wrong;

    if (options->help || options->version)
        return NULL;
    wrong = find_conflict(options, takes);
    if (wrong)
        return wrong;
    /* A series and watch always write files, and so does record, whose name is optional. */
    if (options->mode != OUTPUT_MODE_UNSET && !named &&
        !(takes & TAKES_SERIES && !output && !options->report.format))
        return "--mode requires -o FILE: it is the mode of that file";
    if (options->force && !named && !options->path)
        return "--force requires -o FILE: it replaces that file";
    if (options->force && named && takes & (TAKES_PATH | TAKES_SERIES) &&
        (options_is_series(options) || filename_has_directives(output) ||
         filename_is_directory(output)))
        return "--force replaces one file, named by -o FILE: the files of a series, of a directory "
               "and of a name with %p, %t, ... are always new ones";
    if (takes & TAKES_FILE)
        return wrong_with_file(options);
    if (!(takes & TAKES_HOST))
        return wrong_with_process(options, takes);
    if (options->pid_count)
        return "this verb lists all processes and takes no PID";
    return options_selective(options) ? wrong_with_choice(options) : NULL;
}

bool options_parse(struct options *options, unsigned takes, int argc, char **argv)
{
    static const char *const stdout_names[] = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
    /* getopt(3) then distinguishes a missing value from an unknown option */
    struct getopt_table table = {.letters = ":"};
    int key;

    *options = (struct options){
        .timeout_ns = 30ull * 1000000000,
        .mode = OUTPUT_MODE_UNSET,
        .watch = {.cooldown_ns = 600ull * 1000000000},
    };
    optind = 1;
    opterr = 0;
    /*
     * The verb's own options come first: their meaning of a name or a letter counts. Those of other
     * verbs are known, so that the beginning of a name never becomes an option by the lack of
     * another.
     */
    add_rows(&table, add_rows(&table, 0, takes, true), takes, false);
    while ((key = getopt_long(argc, argv, table.letters, table.longs, NULL)) != -1)
        if (!apply_option(options, takes, key, argv[optind - 1]))
            return false;
    for (; optind < argc; optind++)
        if (!add_word(options, takes, argv[optind]))
            return false;

    if (takes & TAKES_REFRESH && !options->every_ns)
        options->every_ns = INTERVAL_NS;
    /* A profile in another format is streamed: to stdout, unless options name an output. */
    if ((takes & TAKES_FILE) && options->json && !options->report.format)
        options->report.format = "json";
    for (size_t i = 0; takes & TAKES_FORMAT && options->output && i < ARRAY_LEN(stdout_names); i++)
        if (strcmp(options->output, stdout_names[i]) == 0)
            options->output = "-";
    if (!options->output && !options_is_series(options) &&
        (options->report.format || (takes & TAKES_FILE) || (options->core && takes & TAKES_OUTPUT)))
        options->output = "-";

    options->wrong = inconsistency(options, takes);
    if (options->wrong)
        message("%s", options->wrong);
    return !options->wrong;
}
