#include "cli/help.h"
#include "base/suggest.h"
#include "cli/message.h"
#include "cli/option_table.h"
#include "cli/output/stdout.h"

#include <stdio.h>
#include <string.h>

enum { HELP_WIDTH = 80, OPTION_COLUMN = 22 };

static const char intro[] =
    "Reads the heap profile of a running process that uses jemalloc out of its\n"
    "memory, and switches profiling by one byte there, without stopping it. For all\n"
    "else, one of its threads is stopped, calls mallctl, and is resumed exactly where\n"
    "it was. The process is not restarted. Also explains the memory of any other\n"
    "process: start with jeattach explain PID.\n";

static const char choice_notes[] =
    "If several of these are given, a process must match all of them. Only processes\n"
    "that use jemalloc match. If several match without --all or -s, they are listed,\n"
    "none is touched, and the exit code is 2.\n";

static const char exit_codes[] =
    "Exit codes: 0 done, 1 internal error, 2 usage error, 3 no such process, 4 not\n"
    "permitted, 5 no jemalloc, 6 profiling not available, 7 no safe point found in\n"
    "time, 8 call timed out (the target will finish it on its own), 9 output not\n"
    "written, 10 refused, 130 interrupted.\n";

/* Returns the length of the first line of text, wrapped at a width. */
static size_t line_length(const char *text, size_t width)
{
    size_t length = strcspn(text, "\n");

    if (length <= width)
        return length;
    for (length = width; length > 0 && text[length] != ' ';)
        length--;
    return length > 0 ? length : width;
}

/* Prints wrapped text. All lines but the first are indented to a column. */
static void print_wrapped(FILE *to, const char *text, int column)
{
    while (*text) {
        size_t length = line_length(text, (size_t)(HELP_WIDTH - 1 - column));

        fprintf(to, "%.*s\n", (int)length, text);
        text += length;
        text += *text == ' ' || *text == '\n';
        if (*text)
            fprintf(to, "%*s", column, "");
    }
}

/* ---- options ---- */

static const struct option_help *find_option_help(const struct verb *verb, const char *name)
{
    for (size_t i = 0; verb && i < VERB_OPTIONS_MAX && verb->options[i].name; i++)
        if (strcmp(verb->options[i].name, name) == 0)
            return &verb->options[i];
    return NULL;
}

/* "  -o, --output FILE   write to this file" */
static void print_option(const struct option_row *row, const struct option_help *help)
{
    const char *value = help && help->value ? help->value : row->value;
    char letter[5] = "    ";
    int written;

    if (row->letter)
        snprintf(letter, sizeof letter, "-%c, ", row->letter);
    written = printf("  %s--%s%s%s", letter, row->name, value ? " " : "", value ? value : "");
    if (written + 2 > OPTION_COLUMN) {
        putchar('\n');
        written = 0;
    }
    printf("%*s", OPTION_COLUMN - written, "");
    print_wrapped(stdout, help ? help->text : row->help, OPTION_COLUMN);
}

/* A common option is listed with the verb's own options if the verb has help of its own for it. */
static enum option_group group_with(const struct verb *verb, const struct option_row *row)
{
    return find_option_help(verb, row->name) && !row->needs ? OPTIONS_OF_VERB : row->group;
}

/* Prints the options of a group that the verb takes; verb NULL: all options of the group. */
static void print_options(const struct verb *verb, enum option_group group, const char *heading)
{
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (group_with(verb, row) != group || (verb && !option_is_taken(verb->takes, row)))
            continue;
        printf("%s", heading);
        heading = "";
        print_option(row, find_option_help(verb, row->name));
    }
}

/* Prints the names of the verb's common options, which `jeattach --help` explains. */
static void print_common_names(const struct verb *verb)
{
    char names[1024] = "";

    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        enum option_group group = group_with(verb, row);
        if ((group == OPTIONS_CHOICE || group == OPTIONS_COMMON) &&
            option_is_taken(verb->takes, row))
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s--%s",
                     *names ? ", " : "", row->name);
    }
    printf("\nCommon options (see jeattach --help):\n  ");
    print_wrapped(stdout, names, 2);
}

/* ---- the texts ---- */

static int flush_help(void)
{
    const struct subject subject = {.verb = "print", .name = "the help"};
    struct fault fault;

    return stdout_check(&fault) == FAULT_NONE ? EXIT_DONE : message_fault(&subject, &fault);
}

int help_verb(const struct verb *verb)
{
    for (size_t i = 0; i < VERB_SYNOPSES_MAX && verb->synopses[i]; i++)
        printf("%s jeattach %s %s\n", i ? "      " : "usage:", verb->name, verb->synopses[i]);
    printf("\n%s", verb->intro);
    print_options(verb, OPTIONS_OF_VERB, "\nOptions:\n");
    print_options(verb, OPTIONS_PROFILE, "\nProfile options:\n");
    print_common_names(verb);
    if (verb->notes)
        printf("\n%s", verb->notes);
    return flush_help();
}

int help_overview(const struct verb *const *verbs, size_t count)
{
    puts("usage: jeattach VERB [options] PID...\n"
         "       jeattach report [options] FILE\n"
         "       jeattach [options] PID...       (the same as jeattach explain)\n"
         "       jeattach [options]              (the same as jeattach ps)\n"
         "Options may also stand before the verb.\n");
    printf("%s\nVerbs:\n", intro);
    for (size_t i = 0; i < count; i++)
        printf("  %-8s %s\n", verbs[i]->name, verbs[i]->summary);
    print_options(NULL, OPTIONS_CHOICE, "\nOptions to choose processes:\n");
    printf("\n%s", choice_notes);
    print_options(NULL, OPTIONS_COMMON, "\nCommon options:\n");
    printf("\nHelp on one verb: jeattach VERB --help\n\n%s", exit_codes);
    return flush_help();
}

int help_unknown_verb(const char *name, const struct verb *const *verbs, size_t count)
{
    char cause[512] = "must be one of ", similar[128], clean[64];
    struct suggestion suggestion;

    suggest_begin(&suggestion, name);
    for (size_t i = 0; i < count; i++)
        suggest_consider(&suggestion, verbs[i]->name);
    suggest_text(&suggestion, "", similar, sizeof similar);
    for (size_t i = 0; i < count; i++)
        snprintf(cause + strlen(cause), sizeof cause - strlen(cause), "%s%s", i ? ", " : "",
                 verbs[i]->name);
    message_clean(name, clean, sizeof clean);
    if (*similar)
        message("unknown verb '%s': did you mean %s?", clean, similar);
    else
        message("unknown verb '%s'", clean);
    fputs("  cause: ", stderr);
    print_wrapped(stderr, cause, (int)strlen("  cause: "));
    fputs("  fix:   jeattach --help\n", stderr);
    return EXIT_USAGE;
}

int help_misplaced_pid(const char *pid, const char *verb)
{
    message("the verb must come before process %s", pid);
    fprintf(stderr, "  fix:   jeattach %s %s\n", verb, pid);
    return EXIT_USAGE;
}

int help_version(void)
{
    printf("jeattach %s\n", JEATTACH_VERSION);
    return flush_help();
}
