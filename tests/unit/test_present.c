/* A series of profiles: those between the two ends have no mappings of their own. */
#include "check.h"
#include "run/faults.h"
#include "run/present.h"

#include <string.h>

#define SECOND 1000000000ull
#define HEAD   "heap_v2/1\n  t*: 1: 1 [0: 0]\n"
#define STACK  "@ 0x8100 0x1301 0x1101\n"
#define MAPS                                                                                       \
    "\nMAPPED_LIBRARIES:\n"                                                                        \
    "1000-2000 r-xp 00000000 08:02 1 /nonexistent/app\n"                                           \
    "8000-9000 r-xp 00000000 08:02 2 /nonexistent/libjemalloc.so.2\n"

static void fill_text(struct sink *sink, const char *text)
{
    unsigned char *bytes;

    sink_init(sink, 1 << 20);
    bytes = sink_reserve(sink, strlen(text));
    CHECK(bytes != NULL);
    if (bytes)
        memcpy(bytes, text, strlen(text));
    sink->len = bytes ? strlen(text) : 0;
}

/* Without the mappings of the newest the allocator's call would make it another stack. */
static void test_point_between(void)
{
    static const char middle[] = HEAD STACK "  t*: 1: 2000 [0: 0]\n";
    const struct symbols_options symbols = {0};
    const struct presentation presentation = {.format = FORMAT_TEXT};
    const struct trend_point *points;
    struct presented presented;
    struct heap_profile between;
    struct sink texts[2];
    struct fault fault;

    fill_text(&texts[0], HEAD STACK "  t*: 1: 3000 [0: 0]\n" MAPS);
    fill_text(&texts[1], HEAD STACK "  t*: 1: 1000 [0: 0]\n" MAPS);
    CHECK(heap_parse(&between, middle, sizeof middle - 1, &fault) == FAULT_NONE);
    const struct present_source sources[] = {{.text = &texts[0], .moment_ns = 5 * SECOND},
                                             {.text = &texts[1], .moment_ns = 1 * SECOND},
                                             {.parsed = &between, .moment_ns = 2 * SECOND}};
    CHECK(present_read(&presented, &presentation, &symbols, sources, 3, &fault) == FAULT_NONE);
    CHECK(presented.samples.count == 1 && presented.samples.point_count == 3);
    if (presented.samples.count == 1 && presented.samples.point_count == 3) {
        points = samples_points(&presented.samples, 0);
        CHECK(points[0].bytes == 1000 && points[1].bytes == 2000 && points[2].bytes == 3000);
        CHECK(points[0].seconds == 0 && points[1].seconds == 1 && points[2].seconds == 4);
    }
    CHECK(present_write(&presented, NULL, &fault) == FAULT_NONE);
    present_free(&presented);
    CHECK(between.line_count == 1); /* it is not freed */
    heap_free(&between);
    sink_free(&texts[0]);
    sink_free(&texts[1]);
}

static fault_code write_folded(uint64_t until, struct fault *fault)
{
    const struct symbols_options symbols = {0};
    const struct presentation presentation = {
        .format = FORMAT_FOLDED, .display.value = VALUE_BYTES, .until = until};
    struct presented presented;
    struct output output;
    struct sink text;
    fault_code rc = output_open(&output, "/dev/null", fault);

    fill_text(&text, HEAD STACK "  t*: 1: 3000 [0: 0]\n" MAPS);
    const struct present_source source = {.text = &text, .moment_ns = 1};
    CHECK(rc == FAULT_NONE);
    rc = present_read(&presented, &presentation, &symbols, &source, 1, fault);
    if (rc == FAULT_NONE)
        rc = present_write(&presented, &output, fault);
    present_free(&presented);
    output_close(&output);
    sink_free(&text);
    return rc;
}

/* The time for names is over; so is that for writing, or not. */
static void test_too_late(void)
{
    struct fault fault;

    CHECK(write_folded(1, &fault) == FAULT_OUTPUT && strncmp(fault.what, "--timeout", 9) == 0);
    CHECK(write_folded(clock_now(), &fault) == FAULT_NONE);
}

int main(void)
{
    test_point_between();
    test_too_late();
    return check_result();
}
