/* Memory use from /proc, and the rows that explain it. */
#include "attach/faults.h"
#include "attach/target.h"
#include "check.h"
#include "cli/output/usage_aged.h"
#include "host/parse.h"
#include "host/task.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool parse(const char *text, struct proc_usage *out)
{
    size_t len = strlen(text);
    char *copy = malloc(len ? len : 1); /* no NUL behind it */
    bool good = copy && parse_usage(memcpy(copy, text, len), len, out);

    free(copy);
    return good;
}

static const char rollup[] =
    "55a5c0a00000-7ffd1d5fe000 ---p 00000000 00:00 0                          [rollup]\n"
    "Rss:               10240 kB\n"
    "Pss:                9000 kB\n"
    "Shared_Clean:       1000 kB\n"
    "Anonymous:          8192 kB\n"
    "LazyFree:             64 kB\n"
    "Swap:                 12 kB\n"
    "SwapPss:              11 kB\n"
    "Locked:                0 kB\n";

static const char smaps[] =
    "55a5c0a00000-55a5c0a01000 r--p 00000000 fe:00 1234                       /bin/Rss:\n"
    "Rss:                   4 kB\n"
    "Anonymous:             0 kB\n"
    "Swap:                  0 kB\n"
    "VmFlags: rd mr mw me\n"
    "55a5c0a01000-55a5c0a09000 rw-p 00000000 00:00 0                          [heap]\n"
    "Rss:                  32 kB\n"
    "Anonymous:            32 kB\n"
    "Swap:                  8 kB\n";

static void test_parse(void)
{
    struct proc_usage usage;

    CHECK(parse(rollup, &usage) && usage.rss == 10240 << 10 && usage.anonymous == 8192 << 10);
    CHECK(usage.lazy_free == 64 << 10 && usage.swap == 12 << 10);
    CHECK(parse(smaps, &usage) && usage.rss == 36 << 10 && usage.swap == 8 << 10);
    CHECK(parse("Name:\tx\nVmRSS:\t  100 kB\nRssAnon:\t 60 kB\nVmSwap:\t 7 kB\n", &usage));
    CHECK(usage.rss == 100 << 10 && usage.anonymous == 60 << 10 && usage.swap == 7 << 10);
    CHECK(parse("Rss: 18446744073709551615 kB\nRss: 5 kB", &usage) && usage.rss == UINT64_MAX);
    CHECK(!parse("", &usage) && !parse("Rs", &usage) && !parse("Pss: 5 kB\nSwap: 1 kB\n", &usage));
}

static void test_own(void)
{
    struct procfs proc;
    struct target target;
    struct proc_usage usage;
    enum usage_source source;

    if (!CHECK(procfs_open(&proc, "/proc") == 0) ||
        !CHECK(target_open(&target, &proc, getpid(), NULL) == FAULT_NONE))
        return;
    CHECK(target_usage(&target, &usage, &source, NULL) == FAULT_NONE);
    CHECK(usage.rss > 64 << 10 && usage.anonymous < usage.rss);
    target_close(&target);
    procfs_close(&proc);
}

static void *sleep_for_ever(void *unused)
{
    pause();
    return unused;
}

/* Once a byte can be read, its first thread ends. */
static pid_t start_two_threads(int fd)
{
    pthread_t thread;
    char byte;
    pid_t pid = fork();

    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pthread_create(&thread, NULL, sleep_for_ever, NULL) || read(fd, &byte, 1) != 1)
        _exit(1);
    pthread_exit(NULL);
}

static bool has_ended(const struct procfs *proc, pid_t pid)
{
    struct proc_stat stat;

    for (int i = 0; i < 2000; i++) {
        if (process_stat(proc, pid, &stat) != 0 || stat.state == 'Z')
            return true;
        usleep(5000);
    }
    return false;
}

/* The first thread ends while the tool works: another one still shows the memory. */
static void test_first_thread_ends(void)
{
    struct procfs proc;
    struct target target;
    struct proc_usage usage;
    enum usage_source source;
    int fds[2];

    if (!CHECK(procfs_open(&proc, "/proc") == 0 && pipe(fds) == 0))
        return;
    pid_t pid = start_two_threads(fds[0]);
    CHECK(target_open(&target, &proc, pid, NULL) == FAULT_NONE);
    CHECK(write(fds[1], "", 1) == 1 && has_ended(&proc, pid));
    CHECK(target_usage(&target, &usage, &source, NULL) == FAULT_NONE && usage.rss > 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK(target_usage(&target, &usage, &source, NULL) == FAULT_GONE);
    target_close(&target);
    procfs_close(&proc);
    close(fds[0]);
    close(fds[1]);
}

static int64_t sum(const struct usage_row rows[USAGE_ROWS])
{
    int64_t total = 0;

    for (size_t i = 0; i < USAGE_ROWS; i++)
        total += rows[i].bytes;
    return total;
}

static void test_rows(void)
{
    static const struct stats_gauges plain = {
        .allocated = 600, .active = 700, .metadata = 50, .resident = 800};
    static const struct stats_gauges untouched = {
        .allocated = 600, .active = 700, .metadata = 500, .resident = 900};
    struct usage usage = {.gauges = &plain, .process.rss = 1000};
    struct usage_row rows[USAGE_ROWS];

    usage_rows(&usage, rows);
    CHECK(sum(rows) == 1000);
    CHECK(rows[0].bytes == 600 && rows[1].bytes == 100 && rows[2].bytes == 50);
    CHECK(rows[3].bytes == 50 && rows[5].bytes == 200);
    CHECK(strstr(rows[5].meaning, "outside jemalloc"));
    CHECK(!rows[4].name && rows[4].bytes == 0);

    usage.gauges = &untouched; /* metadata are reserved more than used; RSS below resident */
    usage.process.rss = 850;
    usage_rows(&usage, rows);
    CHECK(sum(rows) == 850);
    CHECK(rows[2].bytes == 0 && rows[3].bytes == 200 && rows[5].bytes == -50);
    CHECK(strstr(rows[5].meaning, "swapped out"));
}

/* stats.resident includes the pinned pages (5.4, pa_shard_stats_merge). */
static void test_pinned_row(void)
{
    static const struct stats_gauges gauges = {.allocated = 600,
                                               .active = 700,
                                               .metadata = 50,
                                               .resident = 1000,
                                               .pinned = 200,
                                               .has_pinned = true};
    struct usage usage = {.gauges = &gauges, .process.rss = 1100};
    struct usage_row rows[USAGE_ROWS];

    usage_rows(&usage, rows);
    CHECK(sum(rows) == 1100);
    CHECK(rows[2].bytes == 50 && rows[3].bytes == 50 && rows[4].bytes == 200);
    CHECK(rows[4].name && strcmp(rows[4].metric, "pinned") == 0 && rows[5].bytes == 100);
}

static void test_metrics(void)
{
    static const struct stats_gauges gauges = {
        .allocated = 600, .active = 700, .metadata = 50, .resident = 800, .has_retained = true};
    const struct usage usage = {
        .gauges = &gauges, .process.rss = 1000, .pid = 42, .name = "a\"b\\c\nd\xff"};
    char text[8192] = "";
    FILE *out = fmemopen(text, sizeof text, "w");

    if (!CHECK(out))
        return;
    usage_print_metrics(&usage, out);
    fclose(out);
    CHECK(strncmp(text, "# HELP jemalloc_allocated_bytes ", 32) == 0);
    CHECK(strstr(text, "\n# TYPE jemalloc_allocated_bytes gauge\n"
                       "jemalloc_allocated_bytes{pid=\"42\",process=\"a\\\"b\\\\c?d?\"} 600\n"));
    CHECK(strstr(text, "jemalloc_other_bytes{pid=\"42\",process=\"a\\\"b\\\\c?d?\"} 200\n"));
    CHECK(strstr(text, "jemalloc_retained_bytes{"));
}

static const struct build known_build = {.text = "5.3.0-0-gabc"};

/* The text of the table for a reading, valid until the next call. */
static const char *aged_table(const struct gauges_reading *reading)
{
    static char text[8192];
    const struct usage_aged aged = {.usage = {.build = &known_build,
                                              .gauges = &reading->gauges,
                                              .process.rss = 4096000,
                                              .pid = 42,
                                              .name = "a"},
                                    .reading = reading};
    FILE *out = fmemopen(memset(text, 0, sizeof text), sizeof text, "w");

    if (!CHECK(out))
        return "";
    usage_aged_print(&aged, out);
    fclose(out);
    return text;
}

static void test_aged(void)
{
    struct gauges_reading reading = {
        .state = GAUGES_KNOWN,
        .gauges = {.allocated = 600, .active = 700, .metadata = 50, .resident = 800},
        .has_epoch = true,
        .epoch = 17,
        .aged = AGE_KNOWN,
        .age_ns = 3200000000};

    CHECK(strstr(aged_table(&reading), "  allocated            600 B      3.2 s ago  in use"));
    CHECK(strstr(aged_table(&reading), "  other                    ?              ?  outside"));
    CHECK(strstr(aged_table(&reading), "  RSS               3.91 MiB            now  in memory"));
    CHECK(strstr(aged_table(&reading), "epoch (epoch 17), 3.2 s ago\n"));
    CHECK(!strstr(aged_table(&reading), "retained"));
    reading.aged = AGE_AT_MOST;
    CHECK(strstr(aged_table(&reading), "  allocated            600 B    < 3.2 s ago  in use"));
    reading.aged = AGE_UNKNOWN;
    CHECK(strstr(aged_table(&reading), "  allocated            600 B              ?  in use"));
    CHECK(strstr(aged_table(&reading), "epoch (epoch 17); its time is unknown\n"));
    reading.state = GAUGES_COLLECTING;
    CHECK(strstr(aged_table(&reading), "has begun after it, and has not ended\n"));
}

static void test_aged_unknown(void)
{
    static const enum gauges_state states[] = {GAUGES_NOT_FOUND, GAUGES_UNPROVEN, GAUGES_UNREADABLE,
                                               GAUGES_NEVER};

    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        const struct gauges_reading reading = {.state = states[i]};
        CHECK(strstr(aged_table(&reading), "  allocated                ?              ?  in use"));
        CHECK(strstr(aged_table(&reading), "  retained                 ?              ?  address"));
        CHECK(strstr(aged_table(&reading), "\ngauges: "));
        CHECK(!strstr(aged_table(&reading), "epoch"));
    }
}

int main(void)
{
    test_aged();
    test_aged_unknown();
    test_parse();
    test_own();
    test_first_thread_ends();
    test_rows();
    test_pinned_row();
    test_metrics();
    return check_result();
}
