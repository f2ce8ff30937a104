/* Sizes, rates and durations: as shown, and as parsed. */
#include "base/units.h"
#include "check.h"

#include <string.h>

static const double kib = 1024, mib = 1048576, gib = 1073741824;
static const uint64_t ms = 1000000, second = 1000000000;

static bool is(const char *text, const char *wanted)
{
    if (strcmp(text, wanted) == 0)
        return true;
    fprintf(stderr, "  '%s', not '%s'\n", text, wanted);
    return false;
}

static bool bytes_are(double bytes, const char *wanted)
{
    char out[UNITS_TEXT];

    return is(units_bytes(bytes, out), wanted);
}

static void test_bytes(void)
{
    CHECK(bytes_are(0, "0 B") && bytes_are(-0.2, "0 B") && bytes_are(1023, "1023 B"));
    CHECK(bytes_are(1000, "1000 B") && bytes_are(7.6, "8 B") && bytes_are(-1, "-1 B"));
    CHECK(bytes_are(kib, "1 KiB") && bytes_are(1.5 * kib, "1.5 KiB"));
    CHECK(bytes_are(64 * kib, "64 KiB") && bytes_are(100 * kib, "100 KiB"));
    CHECK(bytes_are(1536 * kib, "1.5 MiB") && bytes_are(-1.5 * mib, "-1.5 MiB"));
    CHECK(bytes_are(2.344 * gib, "2.34 GiB") && bytes_are(2.346 * gib, "2.35 GiB"));
    CHECK(bytes_are(12.04 * mib, "12 MiB") && bytes_are(12.06 * mib, "12.1 MiB"));
    CHECK(bytes_are(117.4 * mib, "117 MiB") && bytes_are(20 * mib, "20 MiB"));
    CHECK(bytes_are(gib * kib, "1 TiB") && bytes_are(gib * mib, "1 PiB"));
    CHECK(bytes_are((double)UINT64_MAX, "16 EiB") && bytes_are(2048 * gib * gib, "2048 EiB"));
    CHECK(bytes_are(1e30, "867361737988 EiB") && bytes_are(-1e300, "-867361737988 EiB"));
}

/* No four digits by rounding, and no 1024 of a unit. */
static void test_carry(void)
{
    CHECK(bytes_are(9.994 * kib, "9.99 KiB") && bytes_are(9.996 * kib, "10 KiB"));
    CHECK(bytes_are(99.94 * kib, "99.9 KiB") && bytes_are(99.96 * kib, "100 KiB"));
    CHECK(bytes_are(1023.4 * kib, "1023 KiB") && bytes_are(1023.5 * kib, "1 MiB"));
    CHECK(bytes_are(mib - 1, "1 MiB") && bytes_are(-1023.6 * mib, "-1 GiB"));
    CHECK(bytes_are(1023.6, "1 KiB"));
}

static void test_changes(void)
{
    char out[UNITS_TEXT];

    CHECK(is(units_change(117 * mib, out), "+117 MiB") && is(units_change(0, out), "0 B"));
    CHECK(is(units_change(-3.4 * kib, out), "-3.4 KiB") && is(units_change(0.4, out), "0 B"));
    CHECK(is(units_change(0.5, out), "+1 B") && is(units_change(-1, out), "-1 B"));
    CHECK(is(units_rate(1.5 * mib, out), "+1.5 MiB/s") && is(units_rate(0, out), "0 B/s"));
    CHECK(is(units_rate(-100, out), "-100 B/s"));
}

static void test_shorten(void)
{
    char out[UNITS_TEXT];

    units_bytes(1.25 * gib, out);
    CHECK(is(units_shorten(out), "1.25G"));
    units_bytes(512, out);
    CHECK(is(units_shorten(out), "512"));
    units_rate(-1023 * kib, out);
    CHECK(is(units_shorten(out), "-1023K/s"));
    units_rate(7, out);
    CHECK(is(units_shorten(out), "+7/s"));
}

static bool lasts(uint64_t ns, const char *wanted)
{
    char out[UNITS_TEXT];

    return is(units_duration(ns, out), wanted);
}

static void test_durations(void)
{
    CHECK(lasts(0, "0 ms") && lasts(1, "< 0.01 ms") && lasts(5000, "0.01 ms"));
    CHECK(lasts(230000, "0.23 ms") && lasts(940000, "0.94 ms") && lasts(999999, "1 ms"));
    CHECK(lasts(1234567, "1.23 ms") && lasts(12300000, "12.3 ms") && lasts(50 * ms, "50 ms"));
    CHECK(lasts(999400000, "999 ms") && lasts(999900000, "1 s"));
    CHECK(lasts(1500 * ms, "1.5 s") && lasts(2003 * ms, "2 s") && lasts(30 * second, "30 s"));
    CHECK(lasts(12345 * ms, "12.3 s") && lasts(59940 * ms, "59.9 s"));
    CHECK(lasts(59950 * ms, "1 min") && lasts(60 * second, "1 min"));
    CHECK(lasts(125 * second, "2 min 5 s") && lasts(3599400 * ms, "59 min 59 s"));
    CHECK(lasts(3599600 * ms, "1 h") && lasts(12000 * second, "3 h 20 min"));
    CHECK(lasts(86369 * second, "23 h 59 min") && lasts(86370 * second, "1 d"));
    CHECK(lasts(349200 * second, "4 d 1 h") && lasts(UINT64_MAX, "213504 d"));
}

static bool parses(const char *text, uint64_t wanted, const char *wanted_rest)
{
    const char *rest;
    uint64_t bytes;

    return units_parse_bytes(text, &bytes, &rest) && bytes == wanted && is(rest, wanted_rest);
}

static void test_parse_bytes(void)
{
    const char *rest;
    uint64_t bytes;

    CHECK(parses("0", 0, "") && parses("4096", 4096, "") && parses("64K", 65536, ""));
    CHECK(parses("1.5GiB", 1536ull << 20, "") && parses("2T/10s", 2ull << 40, "/10s"));
    CHECK(parses("0.5K", 512, "") && parses("1.9", 1, "") && parses("2.25M", 2304 << 10, ""));
    CHECK(parses("2GB", 2ull << 30, "B") && parses("2Gi", 2ull << 30, "i"));
    CHECK(parses("1k", 1, "k") && parses("80%", 80, "%"));
    CHECK(parses("18446744073709551615", UINT64_MAX, ""));
    CHECK(parses("18014398509481983K", 18014398509481983ull << 10, ""));
    CHECK(parses("16777215.5T", 33554431ull << 39, ""));
    static const char *const wrong[] = {
        "", "K", "-1", "+1", " 1", ".5G", "1.G", "18446744073709551616", "18014398509481984K"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(!units_parse_bytes(wrong[i], &bytes, &rest));
}

static void test_parse_decimal(void)
{
    const char *rest;
    double value;

    CHECK(units_parse_decimal("99.5%", &value, &rest) && value == 99.5 && is(rest, "%"));
    CHECK(units_parse_decimal("1e", &value, &rest) && value == 1 && is(rest, "e"));
    CHECK(!units_parse_decimal("1e9", &value, &rest) && !units_parse_decimal("0x1", &value, &rest));
    CHECK(units_parse_decimal("1.5.2", &value, &rest) && value == 1.5 && is(rest, ".2"));
    CHECK(!units_parse_decimal("inf", &value, &rest) && !units_parse_decimal("1.", &value, &rest));
}

static void test_parse_digits(void)
{
    const char *rest;
    uint64_t value;

    CHECK(units_parse_digits("42x", 42, &value, &rest) && value == 42 && is(rest, "x"));
    CHECK(!units_parse_digits("43", 42, &value, &rest) &&
          !units_parse_digits("", 9, &value, &rest));
    CHECK(!units_parse_digits("9", 8, &value, &rest) && units_parse_digits("07", 8, &value, &rest));
}

static void test_parse_durations(void)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } rows[] = {
        {"1", 1000000000},         {"30s", 30000000000},
        {"500ms", 500000000},      {"5m", 300000000000},
        {"1h", 3600000000000},     {"24h", 86400000000000},
        {"0.5", 500000000},        {"1.5s", 1500000000},
        {"86400", 86400000000000}, {"86400000ms", 86400000000000},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t ns = 0;
        CHECK(units_parse_duration(rows[i].text, &ns) && ns == rows[i].ns);
    }
}

static void test_wrong_durations(void)
{
    static const char *const texts[] = {
        "",       " ",
        "-1",     "+1",
        " 1",     "1 ",
        "5 m",    "s",
        "nan",    "inf",
        "1e9999", "1e300h",
        "25h",    "86401",
        "0",      "0s",
        "0ms",    "1M",
        "1sec",   "1us",
        "1ns",    "1d",
        "m5",     "1m30s",
        ".5",     "1,5",
        "1..5",   "1h ",
        "0x",     "infinity",
        "1e20ms", "999999999999999999",
        "1\ns",   "\xc2\xa0\x31",
        "24.1h",  "1441m",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint64_t ns;
        if (!CHECK(!units_parse_duration(texts[i], &ns)))
            fprintf(stderr, "  '%s'\n", texts[i]);
    }
}

/* Decimal digits, as documented: strtod(3) accepts more than that. */
static void test_hexadecimal(void)
{
    uint64_t ns;

    CHECK(!units_parse_duration("0x10", &ns));
    CHECK(!units_parse_duration("0x1p4s", &ns));
}

/* An invalid time would end before any work. */
static void test_too_short(void)
{
    uint64_t ns;

    CHECK(!units_parse_duration("0.0000000001", &ns) || ns > 0);
    CHECK(!units_parse_duration("1e-300h", &ns) || ns > 0);
}

int main(void)
{
    test_bytes();
    test_carry();
    test_changes();
    test_shorten();
    test_durations();
    test_parse_bytes();
    test_parse_decimal();
    test_parse_digits();
    test_parse_durations();
    test_wrong_durations();
    test_hexadecimal();
    test_too_short();
    return check_result();
}
