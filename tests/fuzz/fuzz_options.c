/* A command line: words that are separated by NUL bytes. */
#include "cli/options.h"
#include "fuzz.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 300 };

static void check(const struct options *options)
{
    expect(options->pid_count <= OPTIONS_PIDS_MAX);
    for (size_t i = 0; i < options->pid_count; i++)
        expect(options->pids[i] > 0 && options->pids[i] <= 4 << 20);
    expect(options->timeout_ns <= 24ull * 3600 * 1000000000);
    expect(options->thread >= 0 && !(options->output && options->path && !options->help));
}

/* getopt(3) keeps its position within a word; only optind 0 resets it. */
static void forget_place(void)
{
    char *argv[] = {(char[]){"dump"}, NULL};

    optind = 0;
    getopt_long(1, argv, "", (const struct option[]){{0}}, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *nowhere;
    char *text = malloc(size + 1), *argv[WORDS_MAX + 2] = {(char[]){"dump"}};
    struct options options;
    int argc = 1;

    if (!nowhere)
        stderr = nowhere = fopen("/dev/null", "we");
    expect(text && nowhere);
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t at = 0; at < size && argc <= WORDS_MAX; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    forget_place();
    if (options_parse(&options, size % 16, argc, argv) && !options.help && !options.version)
        check(&options);
    free(text);
    return 0;
}
