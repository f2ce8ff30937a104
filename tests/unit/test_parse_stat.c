/* /proc/PID/stat: the process chooses its own name. */
#include "check.h"
#include "host/task.h"
#include "proc_text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Parses a copy of exactly len bytes, so that a read beyond it is noticed. */
static bool parse_copy(const char *text, size_t len, struct proc_stat *out)
{
    char *copy = malloc(len ? len : 1);
    bool good = copy && parse_stat(memcpy(copy, text, len), len, out);

    free(copy);
    return good;
}

static bool parse_text(const char *text, struct proc_stat *out)
{
    return parse_copy(text, strlen(text), out);
}

static bool parse_named(const char *comm, struct proc_stat *out)
{
    const struct stat_line line = {4242, comm, 'S', 17, 0x400100, 120, 30, 987654321, 3};
    char text[2048];
    int n = stat_text(&line, text, sizeof text);

    return parse_copy(text, (size_t)n, out);
}

static void test_fields(void)
{
    struct proc_stat stat;

    CHECK(parse_named("redis-server", &stat));
    CHECK(stat.pid == 4242);
    CHECK(strcmp(stat.comm, "redis-server") == 0);
    CHECK(stat.state == 'S');
    CHECK(stat.ppid == 17);
    CHECK(stat.flags == 0x400100);
    CHECK(stat.cpu_ticks == 150 && stat.user_ticks == 120);
    CHECK(stat.threads == 6);
    CHECK(stat.start == 987654321);
    CHECK(stat.cpu == 3);
    CHECK(stat.stack_start == 140720000000000);
    CHECK(stat.env_start == 140720000000200 && stat.env_end == 140720000000300);
}

static void test_names(void)
{
    static const char *const names[] = {
        "",         ")",      "(",    ") R 1", "a) R 1 2 3 4 5 6 7 8 9 10",
        "a\nb",     "  a  b", "((((", "))))",  ") Z 0 0 0 0 0 2097152",
        "\xff\xfe",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct proc_stat stat;
        CHECK(parse_named(names[i], &stat));
        CHECK(strcmp(stat.comm, names[i]) == 0);
        CHECK(stat.state == 'S' && stat.ppid == 17 && stat.flags == 0x400100);
        CHECK(stat.start == 987654321 && stat.cpu == 3);
    }
}

/* Names of kernel threads (worker threads) are longer than a process's 15 bytes. */
static void test_long_name(void)
{
    struct proc_stat stat;
    char name[128];

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK(parse_named(name, &stat));
    CHECK(strlen(stat.comm) == sizeof stat.comm - 1);
    CHECK(stat.state == 'S' && stat.start == 987654321);
    name[63] = '\0';
    CHECK(parse_named(name, &stat));
    CHECK(strcmp(stat.comm, name) == 0);
}

/* Cut short anywhere: no value is made up, and starttime is present or the result is an error. */
static void test_truncated(void)
{
    const struct stat_line line = {1, "a b", 'R', 0, 64, 1, 2, 777, 5};
    char text[2048];
    size_t len = (size_t)stat_text(&line, text, sizeof text);
    size_t start_at = (size_t)(strstr(text, " 777 ") + 1 - text);

    for (size_t n = 0; n <= len; n++) {
        struct proc_stat stat;
        bool good = parse_copy(text, n, &stat);
        CHECK(good == (n > start_at));
        CHECK(n < start_at + 3 || (stat.start == 777 && stat.flags == 64));
    }
}

static void test_refused(void)
{
    static const char *const texts[] = {
        "",
        "\n",
        "x",
        "(a) S 1 2 3",
        "1",
        "1 a S 1 2 3",
        "1 (a S 1 2 3",
        "1 a) S 1 2 3",
        "1 )a( S 1 2 3",
        "1 (a)",
        "1 (a) ",
        "1 (a) S",
        "1 (a) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "1 (a) S x 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "1 (a) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 99999999999999999999999",
        "99999999999999999999999 (a) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct proc_stat stat;
        CHECK(!parse_text(texts[i], &stat));
    }
}

/* Up to starttime, without the CPU: equal to a whole line except for the CPU. */
static void test_shortest(void)
{
    struct proc_stat stat;

    CHECK(parse_text("1 (a) S 2 1 1 1 -1 9 1 1 1 1 14 15 1 1 1 -1 1 1 22", &stat));
    CHECK(stat.ppid == 2 && stat.flags == 9 && stat.cpu_ticks == 29 && stat.start == 22);
    CHECK(stat.cpu == 0);
    CHECK(parse_text("1 (a) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 18446744073709551615", &stat));
    CHECK(stat.start == UINT64_MAX);
}

static void test_own(void)
{
    char text[2048];
    struct proc_stat stat;

    CHECK(prctl(PR_SET_NAME, ") R 1 \n(") == 0);
    FILE *file = fopen("/proc/self/stat", "re");
    if (!CHECK(file != NULL))
        return;
    size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    CHECK(parse_copy(text, n, &stat));
    CHECK(stat.pid == getpid() && stat.ppid == getppid());
    CHECK(stat.state == 'R' && stat.start > 0);
    CHECK(strcmp(stat.comm, ") R 1 \n(") == 0);
}

int main(void)
{
    test_fields();
    test_names();
    test_long_name();
    test_truncated();
    test_refused();
    test_shortest();
    test_own();
    return check_result();
}
