/* The lines of top: for narrow and low terminals, unusual names, and each state of a target. */
#include "check.h"
#include "cli/output/columns.h"
#include "cli/output/top_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull
#define MIB    ((uint64_t)1 << 20)

/* The layout. */
struct shown {
    char text[1 << 16];
    size_t lines, widest;
};

static void take_line(void *ctx, enum top_style style, const char *text)
{
    struct shown *shown = ctx;
    size_t columns = columns_of(text), len = strlen(shown->text);

    (void)style;
    CHECK(strlen(text) == strcspn(text, "\n\r\033"));
    shown->lines++;
    shown->widest = columns > shown->widest ? columns : shown->widest;
    snprintf(shown->text + len, sizeof shown->text - len, "%s\n", text);
}

static const char *lay_out(struct shown *shown, const struct top_page *page, size_t columns,
                           size_t lines, size_t rows)
{
    const struct top_size size = {columns, lines, rows};

    memset(shown, 0, sizeof *shown);
    CHECK(top_lay_out(page, &size, take_line, shown));
    CHECK(!columns || shown->widest <= columns);
    CHECK(!lines || shown->lines <= lines);
    return shown->text;
}

static bool has(const struct shown *shown, const char *text)
{
    if (strstr(shown->text, text))
        return true;
    fprintf(stderr, "  not there: '%s' in\n%s", text, shown->text);
    return false;
}

/* ---- models ---- */

static const char long_name[] = "std::vector<std::pair<int, int>, std::allocator<int> >::"
                                "push_back(std::pair<int, int>&&)";

/* Each name with its NUL: the last one's is that of the literal. */
#define CALLS(text, count)                                                                         \
    {                                                                                              \
        text, sizeof text, count                                                                   \
    }

#define NAMES 5
static const struct {
    const char *calls;
    size_t len;
    uint32_t count;
} names[NAMES] = {
    CALLS("sdsnewlen\0createStringObject\0main", 3),
    CALLS("日本語の関数名はとても長い\0main", 2),
    CALLS("evil\033[2J\r\nname\0main", 2),
    CALLS(long_name, 1),
    CALLS("a\0b\0c\0d", 4),
};

/* Two profiles, two seconds apart: each site grew by its number in MiB, the last one shrank. */
static void make_sites(struct sites *sites)
{
    sites_init(sites);
    sites->list = calloc(NAMES, sizeof *sites->list);
    sites->count = NAMES;
    for (size_t i = 0; i < NAMES; i++) {
        struct site *site = &sites->list[i];
        int64_t grown = (int64_t)(i == NAMES - 1 ? -MIB : i * MIB);
        site->calls = malloc(names[i].len);
        memcpy(site->calls, names[i].calls, names[i].len);
        site->len = names[i].len;
        site->call_count = names[i].count;
        site->objects = 1000;
        site->first.bytes = site->past[0].bytes = (int64_t)(100 * MIB / (i + 1));
        site->now.bytes = site->past[1].bytes = site->first.bytes + grown;
        site->now.variance = site->past[1].variance = i == 1 ? 1e15 : 0;
        sites->bytes.now += site->now.bytes;
    }
    sites->objects.now = 1000 * NAMES;
    sites->rounds = 2;
    sites->times[1] = 2 * SECOND;
    sites->period = 524288;
}

static void add_gauges(struct top_model *model, uint64_t rss, uint64_t allocated, bool stats)
{
    struct gauge_values values = {.time = model->trends.rounds * 2 * SECOND};

    for (enum gauge i = 0; i < GAUGE_COUNT; i++) {
        values.known[i] = stats || i == GAUGE_RSS;
        values.bytes[i] = i == GAUGE_RSS ? rss : allocated;
    }
    trends_add(&model->trends, &values);
}

static struct top_model make_model(const struct sites *sites)
{
    struct top_model model = {.name = "redis-server",
                              .pid = 4242,
                              .version = "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c",
                              .has_stats = true,
                              .sites = sites,
                              .asked = 2 * SECOND,
                              .interval = 2 * SECOND,
                              .held = 410000,
                              .longest = 1200000,
                              .refreshes = 2};

    add_gauges(&model, 200 * MIB, 150 * MIB, true);
    add_gauges(&model, 204 * MIB, 156 * MIB, true);
    return model;
}

static struct top_page make_page(const struct top_model *model)
{
    return (struct top_page){.model = model,
                             .clock = "12:34:56",
                             .why = "profiling is not active (prof.active is false)",
                             .next = "jeattach on 4242"};
}

static void test_no_counts_in_memory(void)
{
    struct shown *shown = calloc(1, sizeof *shown);
    struct top_model model = make_model(NULL);
    const struct top_page page = make_page(&model);

    if (!CHECK(shown))
        return;
    model.reads = true;
    model.has_stats = false;
    lay_out(shown, &page, 80, 24, 0);
    CHECK(has(shown, "the counts are not found in jemalloc's records"));
    CHECK(!strstr(shown->text, "config.stats"));
    free(shown);
}

/* ---- output ---- */

static void test_usual_size(const struct sites *sites)
{
    struct top_model model = make_model(sites);
    struct top_page page = make_page(&model);
    struct shown shown;

    lay_out(&shown, &page, 80, 24, 0);
    CHECK(has(&shown, "redis-server[4242]  jemalloc 5.3.0 "));
    CHECK(has(&shown, "12:34:56\n"));
    CHECK(has(&shown, "growing: in use +3 MiB/s, RSS +2 MiB/s (over 2 s)\n"));
    CHECK(has(&shown, "thread stopped 0.41 ms, at most 1.2 ms, 0.02 % of the time; every 2 s\n"));
    CHECK(has(&shown, "RSS           204 MiB       +2 MiB/s    padding "));
    CHECK(has(&shown,
              "    100 MiB  42.9%              -   sdsnewlen <- createStringObject <- main\n"));
    CHECK(has(&shown, " +512 KiB/s ~ 日本語"));
    CHECK(has(&shown, "evil?[2J??name <- main\n"));
    CHECK(has(&shown, "std::vector::push_back\n"));
    CHECK(has(&shown, " -512 KiB/s   a <- b <- c <- d\n"));
    CHECK(has(&shown, "a sample every 512 KiB"));
}

static void test_order(const struct sites *sites)
{
    struct top_model model = make_model(sites);
    struct top_page page = make_page(&model);
    struct shown shown;
    const char *text = lay_out(&shown, &page, 80, 24, 0);

    CHECK(strstr(text, "sdsnewlen") < strstr(text, "evil") && has(&shown, "SIZE "));
    page.order = SITES_BY_GROWTH;
    text = lay_out(&shown, &page, 80, 24, 0);
    CHECK(strstr(text, "sdsnewlen") > strstr(text, "evil") && has(&shown, "GROWTH"));
    CHECK(strstr(text, "push_back") < strstr(text, "evil"));
}

/* Any size: no line is too wide, there are not too many, and the key facts are shown. */
static void test_sizes(const struct sites *sites)
{
    struct top_model model = make_model(sites);
    struct top_page page = make_page(&model);
    struct shown shown;

    for (size_t columns = 20; columns <= 140; columns++)
        for (size_t lines = 4; lines <= 40; lines += 3) {
            lay_out(&shown, &page, columns, lines, 0);
            CHECK(strstr(shown.text, "redis-server[4242]") && strstr(shown.text, "growing: in us"));
        }
    lay_out(&shown, &page, 40, 10, 0);
    CHECK(has(&shown, "RSS           204 MiB       +2 MiB/s\n"));
    CHECK(has(&shown, "in use "));
    CHECK(has(&shown, "  100M         -   sdsnewlen <- "));
    CHECK(shown.lines == 10);
    lay_out(&shown, &page, 120, 40, 0);
    CHECK(has(&shown, "in 2 s   objects  site, of 5 "));
    CHECK(has(&shown, "    +2 MiB      1000  evil"));
}

static void test_rows(const struct sites *sites)
{
    struct top_model model = make_model(sites);
    struct top_page page = make_page(&model);
    struct shown shown;

    lay_out(&shown, &page, 80, 24, 2);
    CHECK(has(&shown, "日本語") && !strstr(shown.text, "evil"));
    lay_out(&shown, &page, 0, 0, 0); /* not a terminal: whole names */
    CHECK(has(&shown, long_name) && has(&shown, "日本語の関数名はとても長い <- main\n"));
}

/* What the growth rests on; one of several sites grows. */
static void test_evidence(const struct sites *sites)
{
    struct sites judged = *sites;
    struct top_model model = make_model(&judged);
    struct top_page page = make_page(&model);
    struct shown shown;
    const struct trend before = judged.list[0].judged;

    judged.period = 524288;
    lay_out(&shown, &page, 120, 40, 0);
    CHECK(has(&shown, " sample growth ") && has(&shown, "site, of 5  ~ unclear, = stopped "));
    judged.evidence = EVIDENCE_COUNTS;
    judged.list[0].judged =
        (struct trend){.bytes = 3 * MIB, .per_second = MIB, .verdict = TREND_CANDIDATE};
    lay_out(&shown, &page, 120, 40, 0);
    CHECK(!strstr(shown.text, "sample growth"));
    CHECK(has(&shown, "site, of 5  ~ unclear, ? candidate "));
    CHECK(has(&shown, "+1 MiB/s ? "));
    judged.list[0].judged.verdict = TREND_REPLACED;
    lay_out(&shown, &page, 120, 40, 0);
    CHECK(has(&shown, "+1 MiB/s ~ "));
    judged.list[0].judged = before;
}

static void test_interval(const struct sites *sites)
{
    struct top_model model = make_model(sites);
    struct top_page page = make_page(&model);
    struct shown shown;

    model.interval = 10 * SECOND;
    lay_out(&shown, &page, 80, 24, 0);
    CHECK(has(&shown, "at most 1.2 ms; every 10 s, not 2 s, to stay below 1 %\n"));
    model.interval = 0; /* --once */
    lay_out(&shown, &page, 80, 24, 0);
    CHECK(has(&shown, "thread stopped 0.41 ms\n"));
}

static void test_missed(const struct sites *sites)
{
    struct top_model model = make_model(sites);
    struct top_page page = make_page(&model);
    struct shown shown;

    page.missed = "no thread was at a safe point";
    lay_out(&shown, &page, 80, 24, 0);
    CHECK(has(&shown, "no new numbers: no thread was at a safe point\n"));
    CHECK(has(&shown, "sdsnewlen"));
}

static void test_gauges_only(void)
{
    struct top_model model = make_model(NULL);
    struct top_page page = make_page(&model);
    struct shown shown;

    lay_out(&shown, &page, 80, 24, 0);
    CHECK(has(&shown, "counts only: profiling is not active (prof.active is false)\n"));
    CHECK(has(&shown, "next: jeattach on 4242\n"));
    CHECK(has(&shown, "retained RSS "));
    lay_out(&shown, &page, 40, 10, 0);
    CHECK(has(&shown, "counts only: profiling is not active\n(prof.active is false)\n"));
    CHECK(has(&shown, "next: jeattach on 4242\n"));
}

/* Where it grows decides the advice. */
static void test_verdicts(void)
{
    struct top_model model = make_model(NULL);
    struct top_page page = make_page(&model);
    struct shown shown;

    model.trends.rounds = 0;
    lay_out(&shown, &page, 80, 24, 0);
    CHECK(has(&shown, "rates follow with the next refresh\n"));
    add_gauges(&model, 200 * MIB, 150 * MIB, true);
    add_gauges(&model, 200 * MIB, 150 * MIB, true);
    lay_out(&shown, &page, 80, 24, 0);
    CHECK(has(&shown, "steady: in use 0 B/s, RSS 0 B/s (over 2 s)\n"));
    add_gauges(&model, 230 * MIB, 150 * MIB, true);
    add_gauges(&model, 260 * MIB, 150 * MIB, true);
    lay_out(&shown, &page, 0, 0, 0);
    CHECK(has(&shown, "growing: RSS +10 MiB/s; in use is steady: memory outside jemalloc"));
}

static void test_without_statistics(void)
{
    struct top_model model = make_model(NULL);
    struct top_page page = make_page(&model);
    struct shown shown;

    model.trends.rounds = 0;
    model.has_stats = false;
    add_gauges(&model, 200 * MIB, 0, false);
    add_gauges(&model, 300 * MIB, 0, false);
    lay_out(&shown, &page, 80, 24, 0);
    CHECK(has(&shown, "growing: RSS +50 MiB/s (over 2 s)\n"));
    CHECK(has(&shown, "config.stats is false"));
    CHECK(!strstr(shown.text, "allocated"));
}

int main(void)
{
    test_no_counts_in_memory();
    struct sites sites;

    make_sites(&sites);
    test_usual_size(&sites);
    test_order(&sites);
    test_sizes(&sites);
    test_rows(&sites);
    test_evidence(&sites);
    test_interval(&sites);
    test_missed(&sites);
    test_gauges_only();
    test_verdicts();
    test_without_statistics();
    sites_free(&sites);
    return check_result();
}
