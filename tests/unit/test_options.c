/* The command line. */
#include "capture.h"
#include "check.h"
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const uint64_t second = 1000000000;

static void test_pids(void)
{
    static const char *const wrong[] = {
        "",           "0",   "00",      "-1",         "+1",
        " 1",         "1 ",  "1.",      "0x1",        "1e3",
        "a",          "1a",  "4194305", "9999999999", "18446744073709551617",
        "4294967297", "\xb2"};
    pid_t pid;

    CHECK(parse_pid("1", &pid) && pid == 1);
    CHECK(parse_pid("4242", &pid) && pid == 4242);
    CHECK(parse_pid("0042", &pid) && pid == 42);
    CHECK(parse_pid("4194303", &pid) && pid == 4194303);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!CHECK(!parse_pid(wrong[i], &pid)))
            fprintf(stderr, "  '%s'\n", wrong[i]);
}

static char said[4096]; /* the output of the last parse */

static char words_text[8192]; /* the words; options point into them */

static int split_words(char **argv, int room)
{
    char *rest = words_text;
    int argc = 0;

    for (char *word; argc < room - 1 && (word = strsep(&rest, " "));)
        argv[argc++] = word;
    argv[argc] = NULL;
    return argc;
}

/* In a process of its own, like the tool: getopt(3) keeps its position. */
static bool parse_alone(struct options *options, unsigned takes, int argc, char **argv)
{
    struct options *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(options_parse(shared, takes, argc, argv) ? 42 : 43);
    waitpid(pid, &status, 0);
    *options = *shared;
    munmap(shared, sizeof *shared);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 42 || WEXITSTATUS(status) == 43));
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

/* Parses words separated by blanks. */
static bool parse(struct options *options, unsigned takes, const char *words)
{
    char *argv[OPTIONS_PIDS_MAX + 20];
    struct capture capture;

    snprintf(words_text, sizeof words_text, "dump %s", words);
    int argc = split_words(argv, OPTIONS_PIDS_MAX + 20);
    capture_begin(&capture);
    bool good = parse_alone(options, takes, argc, argv);
    capture_end(&capture, said, sizeof said);
    CHECK(good == (*said == '\0')); /* a refusal is explained, a success is silent */
    return good;
}

static void test_defaults(void)
{
    struct options options;

    CHECK(parse(&options, 0, "42"));
    CHECK(options.pid_count == 1 && options.pids[0] == 42);
    CHECK(options.timeout_ns == 30 * second && options.thread == 0 && !options.verbose);
    CHECK(!options.output && !options.path && !options.json && !options.quiet);
    CHECK(!options.help);
}

static void test_all(void)
{
    struct options options;

    CHECK(parse(&options, TAKES_OUTPUT,
                "-o out -qv --verbose --json --timeout 5m --thread 7 --instance 3 42"));
    CHECK(options.instance == 3);
    CHECK(options.output && strcmp(options.output, "out") == 0);
    CHECK(options.quiet && options.verbose && options.json && options.thread == 7);
    CHECK(options.timeout_ns == 300 * second && options.pids[0] == 42);
    CHECK(parse(&options, TAKES_PATH, "42 --path=/a=b --timeout=1s"));
    CHECK(options.path && strcmp(options.path, "/a=b") == 0);
    CHECK(options.timeout_ns == second);
    CHECK(parse(&options, TAKES_OUTPUT, "--output=- -p42") && strcmp(options.output, "-") == 0);
    CHECK(options.pid_count == 1 && options.pids[0] == 42);
    CHECK(parse(&options, TAKES_OUTPUT, "-oout 42") && strcmp(options.output, "out") == 0);
}

/* Options that only some verbs have, and a verb for all processes. */
static void test_of_one_verb(void)
{
    struct options options;

    CHECK(parse(&options, TAKES_WAY, "--no-call 1") && options.no_call);
    CHECK(parse(&options, TAKES_WAY, "1") && !options.no_call);
    CHECK(parse(&options, TAKES_HOST, "-v") && options.pid_count == 0);
    CHECK(parse(&options, TAKES_HOST, "-q --json --timeout 1s") && options.json);
}

static void test_pid_words(void)
{
    struct options options;

    CHECK(parse(&options, 0, "1 -p 2 3 --pid 4 -- 5"));
    CHECK(options.pid_count == 5);
    for (pid_t i = 0; i < 5; i++) /* those of -p come before the words */
        CHECK(options.pids[i] >= 1 && options.pids[i] <= 5);
    CHECK(!parse(&options, 0, "1 x"));
    CHECK(!parse(&options, 0, "-- -1"));
    CHECK(!parse(&options, 0, "-p 0"));
    CHECK(!parse(&options, 0, "--thread 0 1"));
    CHECK(!parse(&options, 0, "1\x1b[2J") && !strchr(said, '\x1b'));
}

/* Names, containers, cgroups and trees in place of a pid. */
static void test_choice(void)
{
    struct options options;

    CHECK(parse(&options, 0, "-n redis") && strcmp(options.name, "redis") == 0);
    CHECK(options.pid_count == 0 && options_selective(&options) && options.parallel == 0);
    CHECK(parse(&options, 0, "--container docker/4f1c --name x --all --parallel 64"));
    CHECK(strcmp(options.container, "docker/4f1c") == 0 && options.all && options.parallel == 64);
    CHECK(parse(&options, 0, "--cgroup /a/b -n 42") && strcmp(options.cgroup, "/a/b") == 0);
    CHECK(parse(&options, 0, "--all") && options.all);
    CHECK(parse(&options, 0, "-s 42") && options.subprocesses && options.pids[0] == 42);
    CHECK(parse(&options, 0, "-s -p 42 -n x 43") && options.pid_count == 2);
    CHECK(parse(&options, 0, "42") && !options_selective(&options));
    CHECK(parse(&options, TAKES_HOST, "-n x --container abcd --cgroup y") && options.name);
    /* With mallctl the first word is then not a pid. */
    CHECK(parse(&options, TAKES_NAMES, "-n x opt.prof 42") && options.name_count == 2);
    CHECK(options.pid_count == 0);
    CHECK(parse(&options, TAKES_NAMES, "opt.prof --all") && options.name_count == 1);
    CHECK(parse(&options, TAKES_NAMES, "-s 42 opt.prof") && options.pids[0] == 42);
    CHECK(parse(&options, TAKES_NAMES, "-s -n x 42 opt.prof") && options.name_count == 1);
}

static void test_choice_refused(void)
{
    static const struct {
        unsigned takes;
        const char *words;
    } rows[] = {
        {0, "-n x 42"},
        {0, "--container abcd 42"},
        {0, "--cgroup x -p 42"},
        {0, "--all 42"},
        {0, "-s"},
        {0, "-s -n x"},
        {0, "-n"},
        {0, "--parallel 0 1 2"},
        {0, "--parallel 65 1 2"},
        {0, "--parallel x 1"},
        {0, "--parallel -1 1"},
        {0, "--name= "},
        {TAKES_HOST, "--all"},
        {TAKES_HOST, "-s"},
        {TAKES_REFRESH, "--every 99ms 1"},
        {TAKES_REFRESH, "--once --count 2 1"},
        {TAKES_REFRESH, "--count 0 1"},
        {TAKES_REFRESH, "--share 1 1"},
        {TAKES_SETTLE, "--reset 1"},
        {TAKES_DURATION, "--interval 1s 1"},
        {TAKES_ONE, "1 2"},
        {TAKES_ONE, "--all"},
        {TAKES_ONE, "-s 1"},
        {TAKES_FILE, "-n x a"},
        {TAKES_NAMES, "-n x"},
    };
    struct options options;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!CHECK(!parse(&options, rows[i].takes, rows[i].words)))
            fprintf(stderr, "  %s\n", rows[i].words);
}

static void test_interval(void)
{
    struct options options;

    CHECK(parse(&options, TAKES_REFRESH, "--every 5s -d 1m --count 3 --sort growth 1"));
    CHECK(options.every_ns == 5000000000 && options.duration_ns == 60 * second &&
          options.count == 3);
    CHECK(strcmp(options.report.sort, "growth") == 0);
    CHECK(parse(&options, TAKES_REFRESH, "1") && options.every_ns == 2000000000);
    CHECK(parse(&options, TAKES_DURATION, "-d 5s 1"));
    CHECK(options.every_ns == 0 && options.duration_ns == 5000000000);
}

static void test_many_pids(void)
{
    struct options options;
    char words[4096] = "";

    for (int i = 0; i < OPTIONS_PIDS_MAX; i++)
        strcat(words, i ? " 7" : "7");
    CHECK(parse(&options, 0, words) && options.pid_count == OPTIONS_PIDS_MAX);
    strcat(words, " 7");
    CHECK(!parse(&options, 0, words));
}

static void test_refused(void)
{
    static const struct {
        unsigned takes;
        const char *words;
    } rows[] = {
        {0, "-o x 1"},
        {TAKES_PATH, "--output x 1"},
        {0, "--path /x 1"},
        {TAKES_OUTPUT, "--path /x 1"},
        {TAKES_OUTPUT | TAKES_PATH, "-o x --path /x 1"},
        {TAKES_OUTPUT, "-o x 1 2"},
        {TAKES_PATH, "--path /x 1 2"},
        {0, "--thread 5 1 2"},
        {0, "--instance 2 1 2"},
        {0, "--instance 0 1"},
        {0, "--instance 1x 1"},
        {0, "--timeout 0 1"},
        {0, "--timeout"},
        {0, "-p"},
        {0, "--no-such-option 1"},
        {0, "-x 1"},
        {0, "--json=yes 1"},
        {0, "-q"},
        {0, "--no-call 1"},
        {TAKES_HOST, "1"},
        {TAKES_HOST, "-p 1"},
        {TAKES_HOST, "--thread 1"},
        {TAKES_OUTPUT, "-f text 1"},
        {0, "--focus x 1"},
        {TAKES_FORMAT, "--base x 1"},
        {TAKES_FORMAT | TAKES_PATH, "-f text --path /x 1"},
        {TAKES_FORMAT, "-f text 1 2"},
        {TAKES_FILE | TAKES_FORMAT, "-q"},
        {TAKES_FILE | TAKES_FORMAT, "a -p 1"},
        {TAKES_FILE | TAKES_FORMAT, "a --thread 1"},
        {TAKES_FILE | TAKES_FORMAT, "- --base -"},
    };
    struct options options;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!CHECK(!parse(&options, rows[i].takes, rows[i].words)))
            fprintf(stderr, "  %s\n", rows[i].words);
}

/* A verb for a file: a word is its name, even if it looks like a pid. */
static void test_file(void)
{
    struct options options;
    unsigned takes = TAKES_FILE | TAKES_FORMAT | TAKES_OUTPUT;

    if (CHECK(parse(&options, takes, "42 --base b -f dot --focus a|b --rows 7 --by-thread"))) {
        CHECK(strcmp(options.file, "42") == 0 && strcmp(options.base, "b") == 0);
        CHECK(options.pid_count == 0 && strcmp(options.output, "-") == 0);
        CHECK(strcmp(options.report.format, "dot") == 0 && options.report.by_thread);
        CHECK(strcmp(options.report.focus, "a|b") == 0 && strcmp(options.report.rows, "7") == 0);
        CHECK(!options.report.ignore && !options.report.debuginfod);
    }
    CHECK(
        parse(&options, takes, "- --hide h --show s --ignore i --unit B --value v --root r -o x"));
    CHECK(strcmp(options.report.hide, "h") == 0 && strcmp(options.report.show, "s") == 0);
    CHECK(strcmp(options.report.ignore, "i") == 0 && strcmp(options.report.unit, "B") == 0);
    CHECK(strcmp(options.report.value, "v") == 0 && strcmp(options.report.root, "r") == 0);
    CHECK(strcmp(options.output, "x") == 0 && strcmp(options.file, "-") == 0);
}

/* A profile in another format is streamed, to stdout by default. */
static void test_format(void)
{
    struct options options;

    CHECK(parse(&options, TAKES_FORMAT, "-f text 42") && strcmp(options.output, "-") == 0);
    CHECK(parse(&options, TAKES_FORMAT, "42") && !options.output);
    CHECK(parse(&options, TAKES_FORMAT, "--focus x 42") && !options.output);
}

/* The message names the wrong word, even if it is one of several letters. */
static void test_mode(void)
{
    const unsigned takes = TAKES_OUTPUT | TAKES_PATH | TAKES_FORMAT;
    struct options options;

    CHECK(parse(&options, takes, "-o x 42") && options.mode == -1);
    CHECK(parse(&options, takes, "--mode 640 -o x 42") && options.mode == 0640);
    CHECK(parse(&options, takes, "--mode 0 -o x 42") && options.mode == 0);
    CHECK(parse(&options, takes, "--mode 0777 -o x 42") && options.mode == 0777);
    CHECK(!parse(&options, takes, "--mode 1777 -o x 42") && strstr(said, "is not a mode"));
    CHECK(!parse(&options, takes, "--mode 8 -o x 42") &&
          !parse(&options, takes, "--mode u+r -o x 1"));
    CHECK(!parse(&options, takes, "--mode 00640 -o x 42") &&
          !parse(&options, takes, "--mode= -o x 42") &&
          !parse(&options, takes, "--mode -1 -o x 42"));
    CHECK(!parse(&options, takes, "--mode 640 42") && strstr(said, "--mode requires -o"));
    CHECK(!parse(&options, takes, "--mode 640 -o - 42") &&
          !parse(&options, takes, "--mode 640 -f dot 1"));
    CHECK(parse(&options, takes | TAKES_SERIES, "--mode 640 42") && options.mode == 0640);
    CHECK(!parse(&options, 0, "--mode 640 42"));
}

static void test_force(void)
{
    const unsigned takes = TAKES_FORMAT | TAKES_OUTPUT | TAKES_SERIES | TAKES_PATH;
    struct options options;

    CHECK(parse(&options, takes, "--force -o x 42") && options.force && !options.allow);
    CHECK(parse(&options, takes, "--force --path x 42"));
    CHECK(parse(&options, takes | TAKES_HOOKS, "--force -o x 42") && !options.allow);
    CHECK(parse(&options, takes | TAKES_HOOKS, "--forc -o x 42") && options.force);
    CHECK(!parse(&options, TAKES_HOOKS, "--force 42") && strstr(said, "no option --force"));
    CHECK(!parse(&options, TAKES_HOOKS, "--forc 42"));
    CHECK(!parse(&options, takes, "--force 42") && strstr(said, "--force requires -o"));
    CHECK(!parse(&options, takes, "--force -o - 42") &&
          !parse(&options, takes, "--force -f dot 1"));
    CHECK(!parse(&options, takes, "--force -o x%p.heap 42") && strstr(said, "new ones"));
    CHECK(!parse(&options, takes, "--force -o /tmp 42") &&
          !parse(&options, takes, "--force -o d/ 1"));
    CHECK(!parse(&options, takes, "--force -o x --every 1s --count 2 42"));
    CHECK(parse(&options, TAKES_FILE | TAKES_FORMAT | TAKES_OUTPUT, "--force -o x%p a"));
    CHECK(parse(&options, takes, "-o /dev/stdout 42") && strcmp(options.output, "-") == 0);
    CHECK(parse(&options, takes, "-o /dev/fd/1 42") && strcmp(options.output, "-") == 0);
    CHECK(parse(&options, takes, "-o /dev/fd/3 42") && strcmp(options.output, "/dev/fd/3") == 0);
}

static void test_for_a_while(void)
{
    const unsigned takes = TAKES_FORMAT | TAKES_OUTPUT | TAKES_DURATION | TAKES_SERIES;
    struct options options;

    CHECK(parse(&options, takes, "42") && !options.duration_ns && !options.every_ns);
    CHECK(parse(&options, takes, "-d 90s 42") && options.duration_ns == 90000000000u);
    CHECK(parse(&options, takes, "42 --every 5m --count 12 --keep 3") &&
          options.every_ns == 300000000000u && options.count == 12 && options.keep == 3);
    /* A series is written to files: without -o they have generated names. */
    CHECK(parse(&options, takes, "42 --every 5m -f folded") && !options.output);
    CHECK(parse(&options, takes, "42 -f folded") && strcmp(options.output, "-") == 0);
    CHECK(parse(&options, TAKES_SETTLE, "42 --settle 2s") && options.settle_ns == 2000000000u);
    CHECK(!parse(&options, takes, "42 --settle 2s"));
    CHECK(!parse(&options, takes, "42 --count 3") && !parse(&options, takes, "42 --keep 3"));
    CHECK(!parse(&options, takes, "42 --every 1s --count 0"));
    CHECK(!parse(&options, takes, "42 --every 1s --count 1000001"));
    CHECK(!parse(&options, takes, "42 --every 1s --count 3x") && strstr(said, "not a number"));
    CHECK(!parse(&options, 0, "42 -d 1s"));
}

static void test_unknown_named(void)
{
    struct options options;

    CHECK(!parse(&options, 0, "1 --unknown"));
    CHECK(strstr(said, "--unknown"));
    CHECK(!parse(&options, 0, "1 -x"));
    CHECK(strstr(said, "-x"));
    CHECK(!parse(&options, 0, "-xq 1"));
    CHECK(strstr(said, "x") && !strstr(said, "dump"));
}

/* No process is needed for help; an error elsewhere is still an error. */
static void test_help(void)
{
    struct options options;

    CHECK(parse(&options, 0, "--help") && options.help);
    CHECK(parse(&options, 0, "-h 1 2 --thread 3") && options.help);
    CHECK(!parse(&options, 0, "-h 1x"));
}

/* The options that only some verbs have, and those that exclude each other. */
static void test_particular(void)
{
    struct options options;

    CHECK(parse(&options, TAKES_STATS, "--full 1") && options.full && !options.prometheus);
    CHECK(parse(&options, TAKES_STATS, "--prometheus 1") && options.prometheus);
    CHECK(parse(&options, TAKES_WAY, "--no-call --json 1 2") && options.no_call);
    CHECK(parse(&options, TAKES_ALLOW_RESET, "--allow reset 1 2") && options.allow == ALLOW_RESET);
    CHECK(parse(&options, TAKES_STATS | TAKES_HOOKS, "--allow hooks,slow 1") &&
          options.allow == (ALLOW_HOOKS | ALLOW_SLOW));
    CHECK(!parse(&options, TAKES_HOOKS, "--allow slow 1") && strstr(said, "--full"));
    CHECK(!parse(&options, TAKES_HOOKS, "--allow hooks, 1") && strstr(said, "must be hooks"));
    CHECK(!parse(&options, TAKES_HOOKS, "--allow-hooks 1"));
    CHECK(!parse(&options, TAKES_STATS, "--full --prometheus 1"));
    CHECK(parse(&options, TAKES_STATS, "--full --json 1") && options.full && options.json);
    CHECK(parse(&options, TAKES_STATS, "--prometheus 1 2"));
    CHECK(!parse(&options, TAKES_WAY, "--no-call --thread 1 1"));
    CHECK(!parse(&options, TAKES_WAY, "--full 1"));
    CHECK(!parse(&options, TAKES_STATS, "--no-call 1"));
    CHECK(!parse(&options, TAKES_STATS | TAKES_WAY, "--call 1"));
    CHECK(!parse(&options, TAKES_STATS | TAKES_WAY, "--allow reset 1"));
}

/* How a profile is reached: a plain dump cannot do without a call. */
static void test_way(void)
{
    const unsigned both = TAKES_WAY | TAKES_CALL;
    struct options options;

    CHECK(parse(&options, both, "1") && !options.call && !options.no_call);
    CHECK(parse(&options, both, "--call 1") && options.call && !options.no_call);
    CHECK(parse(&options, both, "--no-call 1 2") && options.no_call && !options.call);
    CHECK(!parse(&options, both, "--no-call --call 1") && strstr(said, "exclude each other"));
    CHECK(parse(&options, both, "--call --thread 1 1"));
    CHECK(!parse(&options, TAKES_WAY, "--call 1") && strstr(said, "no option --call"));
    CHECK(!parse(&options, TAKES_WAY, "--no-call --thread 1 1"));
    CHECK(!parse(&options, TAKES_WAY | TAKES_PATH, "--no-call 1") && strstr(said, "requires -o"));
    CHECK(!parse(&options, TAKES_WAY | TAKES_PATH, "--no-call --path /x 1"));
    CHECK(parse(&options, both | TAKES_PATH, "--call 1"));
    CHECK(parse(&options, TAKES_WAY | TAKES_PATH | TAKES_OUTPUT, "--no-call -o x 1"));
    CHECK(parse(&options, TAKES_WAY | TAKES_PATH | TAKES_FORMAT, "--no-call -f text 1"));
}

static void test_names(void)
{
    struct options options;

    CHECK(parse(&options, TAKES_NAMES, "42 opt.prof 7 -q prof.active=true"));
    CHECK(options.pid_count == 1 && options.pids[0] == 42 && options.name_count == 3);
    CHECK(options.quiet && strcmp(options.names[0], "opt.prof") == 0);
    CHECK(strcmp(options.names[1], "7") == 0 && strcmp(options.names[2], "prof.active=true") == 0);
    CHECK(parse(&options, TAKES_NAMES, "opt.prof -p 42") && options.name_count == 1);
    CHECK(parse(&options, TAKES_NAMES, "42 --list") && options.list && options.name_count == 0);
    CHECK(parse(&options, TAKES_NAMES, "42 --list opt.*") && options.name_count == 1);
    CHECK(!parse(&options, TAKES_NAMES, "42") && strstr(said, "--list"));
    CHECK(!parse(&options, TAKES_NAMES, "opt.prof") && strstr(said, "no name given"));
    CHECK(!parse(&options, TAKES_NAMES, "--list") && strstr(said, "no process given"));
    CHECK(parse(&options, TAKES_NAMES, "1 a b c d e f g h i j k l m n o p q r s t"));
    CHECK(options.name_count == OPTIONS_NAMES_MAX);
    CHECK(!parse(&options, TAKES_NAMES, "1 a b c d e f g h i j k l m n o p q r s t u"));
    CHECK(!parse(&options, 0, "1 a") && !parse(&options, 0, "a b") &&
          !parse(&options, 0, "1 --list"));
}

static void test_rules(void)
{
    static const unsigned takes = TAKES_RULES | TAKES_OUTPUT | TAKES_ONE;
    static const char *const wrong[] = {
        "42 -o d",
        "--when rss>1G -o d",
        "42 43 --when rss>1G -o d",
        "42 --when rss>1G",
        "42 --when rss>1G -o d --count 2 --once",
        "42 --when rss>1G -o d --count 0",
        "42 --when rss>1G -o d --count x",
        "42 --when rss>1G -o d --keep -1",
        "42 --when rss>1G -o d --keep 1000001",
        "42 --when rss>1G -o d --cooldown 0",
        "42 --when 1 --when 2 --when 3 --when 4 --when 5 --when 6 --when 7 --when 8 --when 9 -o d",
    };
    struct options options;

    CHECK(parse(&options, takes, "42 --when rss>1G -o d") && options.watch.rule_count == 1);
    CHECK(options.count == 0 && options.keep == 0 && !options.once);
    CHECK(options.watch.cooldown_ns == 600 * second && !options.watch.on);
    CHECK(
        parse(&options, takes, "42 --when a --when b -o d --count 7 --keep 1 --cooldown 1s --on"));
    CHECK(options.watch.rule_count == 2 && strcmp(options.watch.rules[1], "b") == 0);
    CHECK(options.count == 7 && options.keep == 1 && !options.once);
    CHECK(options.watch.cooldown_ns == second && options.watch.on);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!CHECK(!parse(&options, takes, wrong[i])))
            fprintf(stderr, "  %s\n", wrong[i]);
    CHECK(!parse(&options, TAKES_OUTPUT, "42 -o d --when rss>1G"));
}

int main(void)
{
    test_rules();
    test_particular();
    test_way();
    test_pids();
    test_defaults();
    test_all();
    test_of_one_verb();
    test_pid_words();
    test_choice();
    test_choice_refused();
    test_interval();
    test_many_pids();
    test_refused();
    test_file();
    test_format();
    test_mode();
    test_force();
    test_for_a_while();
    test_unknown_named();
    test_help();
    test_names();
    return check_result();
}
