#include "cli/options.h"
#include "base/suggest.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/message.h"
#include "cli/option_table.h"
#include "cli/options_check.h"
#include "run/output.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PID_LIMIT = 4 << 20 }; /* PID_MAX_LIMIT, include/linux/threads.h */
enum { NUMBER_MAX = 1000000, FIRST_KEY = 256 /* getopt_long(3)'s for the first row */ };

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
        int argument = option_has_value(row) ? required_argument : no_argument;
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

/*
 * The verb's own options come first: their meaning of a name or a letter counts. Those of other
 * verbs are known, so that the beginning of a name never becomes an option by the lack of another.
 */
static void getopt_table_fill(struct getopt_table *table, unsigned takes)
{
    memset(table, 0, sizeof *table);
    table->letters[0] =
        ':'; /* getopt(3) then distinguishes a missing value from an unknown option */
    add_rows(table, add_rows(table, 0, takes, true), takes, false);
}

/* Returns the row of a key of getopt_long(3). A letter can mean one option with one verb and
 * another with another. */
static const struct option_row *find_row(unsigned takes, int key)
{
    const struct option_row *found = NULL;

    if (key >= FIRST_KEY)
        return &option_rows[key - FIRST_KEY];
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->letter && row->letter == key && (!found || option_is_taken(takes, row)))
            found = row;
    }
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

static bool add_mallctl_name(struct options *options, const char *text)
{
    if (options->name_count == OPTIONS_NAMES_MAX) {
        message("too many names: at most %d", OPTIONS_NAMES_MAX);
        return false;
    }
    options->names[options->name_count++] = text;
    return true;
}

static bool add_rule(struct options *options, const char *text)
{
    if (options->watch.rule_count == OPTIONS_RULES_MAX) {
        message("too many rules: at most %d", OPTIONS_RULES_MAX);
        return false;
    }
    options->watch.rules[options->watch.rule_count++] = text;
    return true;
}

static bool add_between(struct options *options, const char *text)
{
    if (options->between_count == OPTIONS_BETWEEN_MAX) {
        message("too many profiles: at most %d with --between", OPTIONS_BETWEEN_MAX);
        return false;
    }
    options->between[options->between_count++] = text;
    return true;
}

static bool set_file(struct options *options, const char *text)
{
    if (options->file) {
        message("more than one profile given: use --base FILE for the one to compare with");
        return false;
    }
    options->file = text;
    return true;
}

/*
 * True if the next operand is a pid, for a verb whose names follow the process:
 * not if an option has chosen the process.
 */
static bool wants_pid(const struct options *options)
{
    return options->pid_count == 0 && (options->subprocesses || !options_selective(options));
}

static bool add_word(struct options *options, unsigned takes, const char *text)
{
    if (takes & TAKES_FILE)
        return set_file(options, text);
    if (takes & TAKES_NAMES && !wants_pid(options))
        return add_mallctl_name(options, text);
    return add_pid(options, text);
}

static bool parse_parallel(const char *text, int *parallel)
{
    size_t n = strspn(text, "0123456789");

    *parallel = n > 0 && n < 4 && text[n] == '\0' ? atoi(text) : 0;
    return *parallel > 0 && *parallel <= OPTIONS_PARALLEL_MAX;
}

static bool parse_count(const char *text, unsigned *number)
{
    size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 7 || text[n] != '\0' || atoi(text) < 1 || atoi(text) > NUMBER_MAX)
        return false;
    *number = (unsigned)atoi(text);
    return true;
}

static bool parse_mode(const char *text, int *mode)
{
    size_t n = strspn(text, "01234567");
    long value = strtol(text, NULL, 8);

    if (n == 0 || n > 4 || text[n] != '\0' || value > 0777)
        return false;
    *mode = (int)value;
    return true;
}

static bool parse_bytes(const char *text, uint64_t *bytes)
{
    const char *rest;

    return units_parse_bytes(text, bytes, &rest) && !*rest && *bytes;
}

/* Reports a wrong value, with the right form. Returns false, for the caller. */
static bool report_wrong_value(enum option_kind kind, const char *text)
{
    char clean[64];

    message_clean(text, clean, sizeof clean);
    if (kind == OPTION_DURATION)
        message("'%s' is not a duration: must be like 500ms, 30s, 5m or 1h, at most 24h", clean);
    else if (kind == OPTION_NUMBER)
        message("'%s' is not a number from 1 to %d", clean, NUMBER_MAX);
    else if (kind == OPTION_BYTES)
        message("'%s' is not a size: must be like 512M or 1GiB", clean);
    else if (kind == OPTION_THREAD)
        message("'%s' is not a thread id", clean);
    else if (kind == OPTION_PARALLEL)
        message("'%s' is not a number of processes: must be 1 to %d", clean, OPTIONS_PARALLEL_MAX);
    else if (kind == OPTION_MODE)
        message("'%s' is not a mode: must be octal, 0 to 777, such as 640", clean);
    else
        message("'%s' is not an instance number: jeattach status lists the instances", clean);
    return false;
}

static bool parse_value(enum option_kind kind, const char *text, void *at)
{
    switch (kind) {
    case OPTION_DURATION:
        return units_parse_duration(text, at);
    case OPTION_NUMBER:
        return parse_count(text, at);
    case OPTION_BYTES:
        return parse_bytes(text, at);
    case OPTION_PARALLEL:
        return parse_parallel(text, at);
    case OPTION_MODE:
        return parse_mode(text, at);
    default: /* OPTION_THREAD, OPTION_INSTANCE */
        return parse_pid(text, at);
    }
}

static bool set_value(struct options *options, const struct option_row *row, const char *text)
{
    void *at = (char *)options + row->offset;

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
        return add_between(options, text);
    case OPTION_RULE:
        return add_rule(options, text);
    default:
        return parse_value(row->kind, text, at) || report_wrong_value(row->kind, text);
    }
    return true;
}

/* getopt(3) returns the letter, which can be one of several in a word, in optopt. */
static void report_unknown_letter(void)
{
    char clean[8], letter[3] = {'-', (char)optopt, '\0'};

    message("unknown option '%s'", message_clean(letter, clean, sizeof clean));
}

static bool begins_option(unsigned takes, const char *name)
{
    for (size_t i = 0; i < option_row_count; i++)
        if (option_is_taken(takes, &option_rows[i]) &&
            strncmp(option_rows[i].name, name, strlen(name)) == 0)
            return true;
    return false;
}

static void report_unknown_name(unsigned takes, const char *word)
{
    char clean[64], name[64], similar[128];
    struct suggestion suggestion;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    suggest_begin(&suggestion, name);
    for (size_t i = 0; i < option_row_count; i++)
        if (option_is_taken(takes, &option_rows[i]))
            suggest_consider(&suggestion, option_rows[i].name);
    suggest_text(&suggestion, "--", similar, sizeof similar);
    message("%s option '--%s'%s%s%s", begins_option(takes, name) ? "ambiguous" : "unknown",
            message_clean(name, clean, sizeof clean), *similar ? ": did you mean " : "", similar,
            *similar ? "?" : "");
}

static void report_unknown(unsigned takes, const char *word)
{
    if (optopt > 0 && optopt < FIRST_KEY)
        report_unknown_letter();
    else
        report_unknown_name(takes, word);
}

static bool apply_option(struct options *options, unsigned takes, int key, const char *word)
{
    const struct option_row *row;

    if (key == ':' || key == '?') {
        if (key == ':')
            message("option %s requires a value", word);
        else
            report_unknown(takes, word);
        return false;
    }
    row = find_row(takes, key);
    if (option_is_taken(takes, row))
        return set_value(options, row, optarg);
    if (row->letter)
        message("this verb has no option -%c", row->letter);
    else
        message("this verb has no option --%s", row->name);
    return false;
}

static void set_defaults(struct options *options)
{
    *options = (struct options){
        .timeout_ns = 30ull * 1000000000,
        .interval_ns = 2ull * 1000000000,
        .mode = OUTPUT_MODE_UNSET,
        .watch = {.cooldown_ns = 600ull * 1000000000, .max = 3},
    };
}

static bool is_name_of_stdout(const char *path)
{
    static const char *const names[] = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    return false;
}

/* A profile in another format is streamed: to stdout, unless options name an output. */
static void set_format_and_output(struct options *options, unsigned takes)
{
    if ((takes & TAKES_FILE) && options->json && !options->report.format)
        options->report.format = "json";
    if (takes & TAKES_FORMAT && options->output && is_name_of_stdout(options->output))
        options->output = "-";
    if (!options->output && !options_is_series(options) &&
        (options->report.format || (takes & TAKES_FILE) || (options->core && takes & TAKES_OUTPUT)))
        options->output = "-";
}

bool options_parse(struct options *options, unsigned takes, int argc, char **argv)
{
    struct getopt_table table;
    int key;

    set_defaults(options);
    optind = 1;
    opterr = 0;
    getopt_table_fill(&table, takes);
    while ((key = getopt_long(argc, argv, table.letters, table.longs, NULL)) != -1)
        if (!apply_option(options, takes, key, argv[optind - 1]))
            return false;
    for (; optind < argc; optind++)
        if (!add_word(options, takes, argv[optind]))
            return false;
    set_format_and_output(options, takes);
    options->wrong = options_inconsistency(options, takes);
    if (options->wrong)
        message("%s", options->wrong);
    return !options->wrong;
}

bool options_is_series(const struct options *options)
{
    return options->every_ns || options->every_bytes || options->on_new_peak;
}

bool options_to_stdout(const struct options *options)
{
    return options->output && strcmp(options->output, "-") == 0;
}
