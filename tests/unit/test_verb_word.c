/* Where the verb is in a command line. */
#include "base/util.h"
#include "check.h"
#include "cli/option_table.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

static bool look_up(const char *word, unsigned *takes)
{
    *takes = strcmp(word, "mallctl") == 0 ? TAKES_NAMES : TAKES_OUTPUT | TAKES_DURATION;
    return strcmp(word, "mallctl") == 0 || strcmp(word, "record") == 0;
}

/* The verb of words separated by blanks; "": there is none. */
static const char *verb_of(const char *words)
{
    static char text[256];
    char *argv[20] = {"jeattach"}, *rest = text;
    int argc = 1;

    snprintf(text, sizeof text, "%s", words);
    for (char *word; *text && argc < 19 && (word = strsep(&rest, " "));)
        argv[argc++] = word;
    return verb_word_find(argc, argv, look_up) ? argv[verb_word_find(argc, argv, look_up)] : "";
}

static void test_words(void)
{
    static const struct {
        const char *words, *verb;
    } rows[] = {
        {"", ""},
        {"record", "record"},
        {"record 42", "record"},
        {"42 record", "42"},
        {"-q", ""},
        {"-q record 42", "record"},
        {"--json -v -v record", "record"},
        {"-n record", ""},
        {"-n mallctl record", "record"},
        {"--name mallctl record", "record"},
        {"--nam mallctl record", "record"},
        {"--name=mallctl record", "record"},
        {"-nmallctl record", "record"},
        {"-qn mallctl record", "record"},
        {"-qnx mallctl", "mallctl"},
        {"-d 5s record 42", "record"},
        {"-d record", ""},
        {"-o -- record", "record"},
        {"-o - record", "record"},
        {"-q -- record", "record"},
        {"-q --", ""},
        {"--", ""},
        {"-", "-"},
        {"-q - record", "-"},
        {"--no-such-option record", "record"},
        {"-x record", "record"},
        {"--timeout 1s --all", ""},
        {"--timeout", ""},
        {"-n", ""},
        {"--list mallctl 42", "mallctl"}, /* a flag of mallctl */
        {"--list record", "record"},
        {"--lis mallctl 42", "mallctl"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!CHECK(strcmp(verb_of(rows[i].words), rows[i].verb) == 0))
            fprintf(stderr, "  %s: %s\n", rows[i].words, verb_of(rows[i].words));
}

/* Of every option in the table: its value is not the verb, and a flag has none. */
static void test_every_option(void)
{
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        char words[64];
        bool value = row->kind != OPTION_FLAG, other = false;
        for (size_t j = 0; j < option_row_count; j++)
            if (strcmp(option_rows[j].name, row->name) == 0)
                other |= (option_rows[j].kind != OPTION_FLAG) != value;
        snprintf(words, sizeof words, "--%s word record", row->name);
        if (!other && !CHECK(strcmp(verb_of(words), value ? "record" : "word") == 0))
            fprintf(stderr, "  %s\n", words);
        snprintf(words, sizeof words, "-%c word record", row->letter);
        if (row->letter && !CHECK(strcmp(verb_of(words), value ? "record" : "word") == 0))
            fprintf(stderr, "  %s\n", words);
    }
}

int main(void)
{
    test_words();
    test_every_option();
    return check_result();
}
