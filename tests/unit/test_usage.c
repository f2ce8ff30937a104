/* Memory use from /proc, and the rows that explain it. */
#include "attach/faults.h"
#include "attach/target.h"
#include "check.h"
#include "cli/output/usage.h"
#include "host/task.h"
#include "run/faults.h"

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

#define MIB (1 << 20)
#define ALL (~0u & ~(1u << CTL_PINNED))

/* A redis-server that was sampled at 2^14 bytes: most of what sampling adds was never touched. */
static const struct account sampled = {
    .source = ACCOUNT_RECORDS,
    .build = {.text = "5.3.0-0-gabc"},
    .counted = {.gauges = {.allocated = 301u * MIB,
                           .active = 320u * MIB,
                           .metadata = 12u * MIB,
                           .resident = 340u * MIB,
                           .mapped = 400u * MIB},
                .known = ALL & ~(1u << CTL_RETAINED),
                .in_use = 172u * MIB,
                .sampling = 129u * MIB,
                .has_sampling = true,
                .slabs = 15u * MIB,
                .has_slabs = true},
    .process = {.rss = 218u * MIB},
    .has_process = true,
};

static uint64_t parts_sum(const struct account_sum *sum)
{
    uint64_t total = 0;

    for (size_t i = 0; i < ACCOUNT_PARTS; i++)
        total += sum->bytes[i];
    return total;
}

static void test_parts(void)
{
    struct account account = sampled;
    struct account_sum sum = account_sum_up(&account);

    CHECK(account_is_whole(&account));
    CHECK(sum.bytes[ACCOUNT_IN_USE] == 172u * MIB && sum.bytes[ACCOUNT_SAMPLING] == 7u * MIB);
    CHECK(sum.bytes[ACCOUNT_SLABS] == 15u * MIB && sum.bytes[ACCOUNT_PADDING] == 4u * MIB);
    CHECK(sum.bytes[ACCOUNT_PAGES] == 8u * MIB && sum.bytes[ACCOUNT_OWN] == 12u * MIB);
    CHECK(sum.bytes[ACCOUNT_OUTSIDE] == 0 && sum.absent == 122u * MIB);
    CHECK(sum.whole == 218u * MIB && parts_sum(&sum) == sum.whole);

    account.process.rss = 400u * MIB;
    sum = account_sum_up(&account);
    CHECK(sum.bytes[ACCOUNT_SAMPLING] == 129u * MIB && sum.absent == 0);
    CHECK(sum.bytes[ACCOUNT_OUTSIDE] == 60u * MIB && sum.whole == 400u * MIB);

    account.counted.gauges.metadata = 500u * MIB; /* more is reserved than used */
    sum = account_sum_up(&account);
    CHECK(sum.bytes[ACCOUNT_PAGES] == 0 && sum.bytes[ACCOUNT_OWN] == 20u * MIB);
    CHECK(parts_sum(&sum) == sum.whole);
}

/* What the page tables show is what a part has; the rest of the RSS is outside. */
static void test_present_parts(void)
{
    struct account account = sampled;
    struct account_sum sum;

    account.counted.present = (struct counted_present){.known = true,
                                                       .in_use = 100u * MIB,
                                                       .sampling = 30u * MIB,
                                                       .slabs = 10u * MIB,
                                                       .padding = 9u * MIB,
                                                       .free_pages = 3u * MIB,
                                                       .has_own = true,
                                                       .own = 14u * MIB,
                                                       .has_retained = true,
                                                       .retained = 40u * MIB};
    sum = account_sum_up(&account);
    CHECK(sum.bytes[ACCOUNT_IN_USE] == 100u * MIB && sum.bytes[ACCOUNT_SAMPLING] == 30u * MIB);
    CHECK(sum.bytes[ACCOUNT_SLABS] == 10u * MIB && sum.bytes[ACCOUNT_PAGES] == 3u * MIB);
    CHECK(sum.bytes[ACCOUNT_PADDING] == 4u * MIB); /* not more than there is */
    CHECK(sum.bytes[ACCOUNT_OWN] == 14u * MIB && sum.bytes[ACCOUNT_RETAINED] == 40u * MIB);
    CHECK(sum.absent == (340u - 161u) * MIB && sum.bytes[ACCOUNT_OUTSIDE] == 17u * MIB);
    CHECK(parts_sum(&sum) == sum.whole);

    account.has_other = true;
    account.other = 17u * MIB;
    sum = account_sum_up(&account);
    CHECK(sum.bytes[ACCOUNT_OTHER] == 17u * MIB && sum.bytes[ACCOUNT_OUTSIDE] == 0);
    CHECK(parts_sum(&sum) == sum.whole && sum.absent == (340u - 161u) * MIB);
}

/* stats.resident includes the pinned pages (5.4, pa_shard_stats_merge). */
static void test_pinned_part(void)
{
    const struct account account = {.source = ACCOUNT_CALL,
                                    .counted = {.gauges = {.allocated = 600,
                                                           .active = 700,
                                                           .metadata = 50,
                                                           .resident = 1000,
                                                           .pinned = 200,
                                                           .has_pinned = true},
                                                .known = ~0u},
                                    .process = {.rss = 1100},
                                    .has_process = true};
    const struct account_sum sum = account_sum_up(&account);

    CHECK(parts_sum(&sum) == 1100 && sum.bytes[ACCOUNT_PINNED] == 200);
    CHECK(sum.bytes[ACCOUNT_PAGES] == 50 && sum.bytes[ACCOUNT_OWN] == 50);
    CHECK(sum.bytes[ACCOUNT_OUTSIDE] == 100);
}

/* What is outside is not known with one of the parts missing. */
static void test_missing_parts(void)
{
    struct account account = sampled;
    struct account_sum sum;

    account.counted.known = 1u << CTL_ALLOCATED;
    sum = account_sum_up(&account);
    CHECK(!account_is_whole(&account));
    CHECK(sum.known[ACCOUNT_IN_USE] && sum.known[ACCOUNT_SLABS] && !sum.known[ACCOUNT_OWN]);
    CHECK(!sum.known[ACCOUNT_OUTSIDE] && !sum.known[ACCOUNT_PADDING]);
    CHECK(sum.whole == 218u * MIB);
}

/* What a function prints about an account, valid until the next call. */
static const char *printed(const struct account *account,
                           void (*print)(const struct usage *usage, FILE *out))
{
    static char text[16384];
    const struct usage usage = {.account = account, .pid = 42, .name = "a\"b\\c\nd\xff"};
    FILE *out = fmemopen(memset(text, 0, sizeof text), sizeof text, "w");

    if (!CHECK(out))
        return "";
    print(&usage, out);
    fclose(out);
    return text;
}

static void test_table(void)
{
    const char *text = printed(&sampled, usage_print_table);

    CHECK(strstr(text, "  in use           172 MiB  78.9 %  by the program\n"));
    CHECK(strstr(text, "  sampling           7 MiB   3.2 %  "));
    CHECK(strstr(text, "  RSS              218 MiB 100.0 %  as counted"));
    CHECK(strstr(text, "\n  absent           122 MiB          counted by jemalloc, but not in"));
    CHECK(!strstr(text, "outside") && !strstr(text, "swapped  ") && !strstr(text, "pinned  "));
    CHECK(!strstr(text, "retained") && !strstr(text, "-1"));
}

static void test_metrics(void)
{
    const char *text = printed(&sampled, usage_print_metrics);

    CHECK(strncmp(text, "# HELP jemalloc_in_use_bytes ", 29) == 0);
    CHECK(strstr(text, "\n# TYPE jemalloc_in_use_bytes gauge\n"
                       "jemalloc_in_use_bytes{pid=\"42\",process=\"a\\\"b\\\\c?d?\"} 180355072\n"));
    CHECK(
        strstr(text, "jemalloc_allocated_bytes{pid=\"42\",process=\"a\\\"b\\\\c?d?\"} 180355072"));
    CHECK(strstr(text, "jemalloc_sampling_bytes{") && strstr(text, "jemalloc_absent_bytes{"));
    CHECK(!strstr(text, "jemalloc_retained_bytes{"));
}

static void test_unknown(void)
{
    const struct account none = {.source = ACCOUNT_NONE,
                                 .why = {.code = FAULT_OBJECTS_UNREADABLE},
                                 .process = {.rss = 4096000},
                                 .has_process = true};
    struct account part = sampled;

    CHECK(strstr(printed(&none, usage_print_table),
                 "  in use                 ?          by the program"));
    CHECK(strstr(printed(&none, usage_print_table), "  stats.retained         ?          address"));
    CHECK(strstr(printed(&none, usage_print_table), "3.91 MiB 100.0 %  as counted"));
    CHECK(strstr(printed(&none, usage_print_table), "\ncounts: not known: "));
    part.counted.known = 1u << CTL_ALLOCATED;
    CHECK(strstr(printed(&part, usage_print_table), "\n?: not found in jemalloc's records\n"));
    CHECK(!strstr(printed(&part, usage_print_metrics), "jemalloc_outside_bytes"));
}

int main(void)
{
    test_parse();
    test_own();
    test_first_thread_ends();
    test_parts();
    test_present_parts();
    test_pinned_part();
    test_missing_parts();
    test_unknown();
    test_table();
    test_metrics();
    return check_result();
}
