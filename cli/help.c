#include "cli/help.h"
#include "base/suggest.h"
#include "base/util.h"
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

/* An option is listed with the verb's own options if the verb has help of its own for it. */
static enum option_group group_with(const struct verb *verb, const struct option_row *row)
{
    return find_option_help(verb, row->name) ? OPTIONS_OF_VERB : row->group;
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

/* Prints the names of the verb's options of two groups, which another help explains. */
static void print_names(const struct verb *verb, enum option_group group, enum option_group second,
                        const char *heading)
{
    char names[1024] = "";

    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        enum option_group of = group_with(verb, row);
        if ((of == group || of == second) && option_is_taken(verb->takes, row))
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s--%s",
                     *names ? ", " : "", row->name);
    }
    if (!*names)
        return;
    printf("\n%s:\n  ", heading);
    print_wrapped(stdout, names, 2);
}

static void print_examples(const struct verb *verb)
{
    int width = 0;

    for (size_t i = 0; i < VERB_EXAMPLES_MAX && verb->examples[i].line; i++)
        if ((int)strlen(verb->examples[i].line) > width)
            width = (int)strlen(verb->examples[i].line);
    putchar('\n');
    for (size_t i = 0; i < VERB_EXAMPLES_MAX && verb->examples[i].line; i++)
        printf("  %-*s  %s\n", width, verb->examples[i].line, verb->examples[i].purpose);
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
    print_examples(verb);
    printf("\n%s", verb->intro);
    print_options(verb, OPTIONS_OF_VERB, "\nOptions:\n");
    if (verb->takes & TAKES_FILE)
        print_options(verb, OPTIONS_PROFILE, "\nProfile options:\n");
    else
        print_names(verb, OPTIONS_PROFILE, OPTIONS_PROFILE,
                    "Profile options (see jeattach report --help)");
    print_names(verb, OPTIONS_CHOICE, OPTIONS_COMMON, "Common options (see jeattach --help)");
    if (verb->notes)
        printf("\n%s", verb->notes);
    return flush_help();
}

int help_overview(const struct verb *const *verbs, size_t count)
{
    puts("usage: jeattach VERB [options] PROCESS...\n"
         "       jeattach report [options] FILE\n"
         "       jeattach [options] PROCESS...   (the same as jeattach explain)\n"
         "       jeattach [options]              (the same as jeattach ps)\n"
         "\n"
         "PROCESS is a pid, a name (as -n), or a core file. Options may also stand before\n"
         "the verb. A heap profile in the place of all that is shown by report; two are\n"
         "compared, the older one first.\n");
    printf("%s\nVerbs:\n", intro);
    for (size_t i = 0; i < count; i++)
        printf("  %-8s %s\n", verbs[i]->name, verbs[i]->summary);
    print_options(NULL, OPTIONS_CHOICE, "\nOptions to choose processes:\n");
    printf("\n%s", choice_notes);
    print_options(NULL, OPTIONS_COMMON, "\nCommon options:\n");
    printf("\nHelp on one verb: jeattach VERB --help\n\n%s", exit_codes);
    return flush_help();
}

/* Words of other tools, and verbs that are gone. */
static const char *line_for(const char *word)
{
    static const struct {
        const char *word, *line;
    } lines[] = {
        {"compare", "jeattach report NEW --base OLD"},
        {"diff", "jeattach report NEW --base OLD"},
        {"disable", "jeattach off PID"},
        {"enable", "jeattach on PID"},
        {"flame", "jeattach dump PID -o FILE.html"},
        {"grow", "jeattach leak PID"},
        {"growth", "jeattach leak PID"},
        {"heap", "jeattach dump PID -o FILE"},
        {"list", "jeattach ps"},
        {"profile", "jeattach record PID -d 30s -o FILE"},
        {"reset", "jeattach mallctl PID prof.reset=19"},
        {"snapshot", "jeattach dump PID -o FILE"},
        {"start", "jeattach on PID"},
        {"stop", "jeattach off PID"},
    };

    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        if (strcmp(lines[i].word, word) == 0)
            return lines[i].line;
    return NULL;
}

/* Writes the verbs that a name is like: "dump or mallctl"; "": none. Returns out. */
static const char *similar_verbs(const char *name, const struct verb *const *verbs, size_t count,
                                 char out[128])
{
    struct suggestion suggestion;

    suggest_begin(&suggestion, name);
    for (size_t i = 0; i < count; i++)
        suggest_consider(&suggestion, verbs[i]->name);
    suggest_text(&suggestion, "", out, 128);
    return out;
}

bool help_resembles_verb(const char *name, const struct verb *const *verbs, size_t count)
{
    char similar[128];

    return line_for(name) || *similar_verbs(name, verbs, count, similar);
}

int help_unknown_verb(const char *name, const struct verb *const *verbs, size_t count)
{
    char cause[512] = "must be one of ", similar[128], clean[64];

    for (size_t i = 0; i < count; i++)
        snprintf(cause + strlen(cause), sizeof cause - strlen(cause), "%s%s", i ? ", " : "",
                 verbs[i]->name);
    message_clean(name, clean, sizeof clean);
    if (!line_for(name) && *similar_verbs(name, verbs, count, similar))
        message("unknown verb '%s': did you mean %s?", clean, similar);
    else
        message("unknown verb '%s'", clean);
    fputs("  cause: ", stderr);
    print_wrapped(stderr, cause, (int)strlen("  cause: "));
    fprintf(stderr, "  fix:   %s\n", line_for(name) ? line_for(name) : "jeattach --help");
    return EXIT_USAGE;
}

int help_misplaced_operand(const char *word, const char *verb)
{
    char clean[256];

    message("the verb must come before %s", message_clean(word, clean, sizeof clean));
    fprintf(stderr, "  fix:   jeattach %s %s\n", verb,
            options_is_plain_word(word) ? word : "PROCESS");
    return EXIT_USAGE;
}

int help_version(void)
{
    printf("jeattach %s\n", JEATTACH_VERSION);
    return flush_help();
}
