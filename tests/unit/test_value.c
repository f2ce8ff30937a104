/* Values of mallctl's names, as text. */
#include "check.h"
#include "cli/value.h"

#include <string.h>

static bool takes(enum ctl_type type, const char *text, uint64_t wanted)
{
    uint64_t value = 0;

    return value_parse(type, text, &value) && value == wanted;
}

static bool refuses(enum ctl_type type, const char *text)
{
    uint64_t value;

    return !value_parse(type, text, &value);
}

static void test_bool(void)
{
    CHECK(takes(CTL_BOOL, "true", 1) && takes(CTL_BOOL, "on", 1) && takes(CTL_BOOL, "1", 1));
    CHECK(takes(CTL_BOOL, "false", 0) && takes(CTL_BOOL, "off", 0) && takes(CTL_BOOL, "0", 0));
    CHECK(takes(CTL_BOOL, "yes", 1) && takes(CTL_BOOL, "no", 0));
    CHECK(refuses(CTL_BOOL, "") && refuses(CTL_BOOL, "2") && refuses(CTL_BOOL, "True"));
    CHECK(refuses(CTL_BOOL, "true ") && refuses(CTL_BOOL, "00"));
}

static void test_numbers(void)
{
    CHECK(takes(CTL_UNSIGNED, "0", 0) && takes(CTL_UNSIGNED, "4294967295", 4294967295));
    CHECK(refuses(CTL_UNSIGNED, "4294967296") && refuses(CTL_UNSIGNED, "-1"));
    CHECK(takes(CTL_UINT64, "18446744073709551615", UINT64_MAX));
    CHECK(refuses(CTL_UINT64, "18446744073709551616") && refuses(CTL_UINT64, "1K"));
    CHECK(takes(CTL_SSIZE, "-1", UINT64_MAX) && takes(CTL_SSIZE, "10000", 10000));
    CHECK(takes(CTL_SSIZE, "9223372036854775807", INT64_MAX));
    CHECK(takes(CTL_INT64, "-9223372036854775808", (uint64_t)INT64_MIN));
    CHECK(refuses(CTL_SSIZE, "9223372036854775808") && refuses(CTL_SSIZE, "--1"));
    CHECK(refuses(CTL_INT64, "-9223372036854775809") && refuses(CTL_INT64, "-"));
    CHECK(refuses(CTL_UINT64, "") && refuses(CTL_UINT64, "+1") && refuses(CTL_UINT64, " 1"));
    CHECK(refuses(CTL_UINT64, "0x10") && refuses(CTL_UINT64, "1e3") && refuses(CTL_UINT64, "1 "));
}

static void test_sizes(void)
{
    CHECK(takes(CTL_SIZE, "4096", 4096) && takes(CTL_SIZE, "64K", 65536));
    CHECK(takes(CTL_SIZE, "16M", 16 << 20) && takes(CTL_SIZE, "1G", 1 << 30));
    CHECK(takes(CTL_SIZE, "2T", (uint64_t)2 << 40) && takes(CTL_SIZE, "0K", 0));
    CHECK(takes(CTL_SIZE, "18014398509481983K", 18014398509481983ull << 10));
    CHECK(refuses(CTL_SIZE, "18014398509481984K") && refuses(CTL_SIZE, "K"));
    CHECK(refuses(CTL_SIZE, "1KB") && refuses(CTL_SIZE, "1k") && refuses(CTL_SIZE, "1.5M"));
    CHECK(refuses(CTL_SIZE, "-1") && refuses(CTL_SIZE, "16777216T"));
    CHECK(refuses(CTL_SIZE, "16MiB") && refuses(CTL_SIZE, "1.K") && refuses(CTL_SIZE, "1K "));
}

static void test_others(void)
{
    CHECK(refuses(CTL_STRING, "x") && refuses(CTL_POINTER, "0") && refuses(CTL_VOID, ""));
    CHECK(refuses(CTL_FIXED, "1") && refuses(CTL_STRUCT, "1"));
}

static bool prints(enum ctl_type type, uint64_t value, const char *text, const char *wanted)
{
    char out[32];

    return strcmp(value_format(type, value, text, out, sizeof out), wanted) == 0;
}

static void test_format(void)
{
    CHECK(prints(CTL_BOOL, 1, NULL, "true") && prints(CTL_BOOL, 0, NULL, "false"));
    CHECK(prints(CTL_SSIZE, UINT64_MAX, NULL, "-1") && prints(CTL_SIZE, 7, NULL, "7"));
    CHECK(prints(CTL_UINT64, UINT64_MAX, NULL, "18446744073709551615"));
    CHECK(prints(CTL_FIXED, 0x4000, NULL, "0.25") && prints(CTL_FIXED, UINT32_MAX, NULL, "-1"));
    CHECK(prints(CTL_POINTER, 0x7f00, NULL, "0x7f00"));
    CHECK(prints(CTL_STRING, 1, "a\nb", "\"a?b\"") && prints(CTL_STRING, 1, "", "\"\""));
    CHECK(prints(CTL_STRING, 0, NULL, "(null)") && prints(CTL_STRING, 1, NULL, "(unreadable)"));
    CHECK(prints(CTL_STRING, 1, "0123456789012345678901234567890123456789",
                 "\"01234567890123456789012345678\""));
}

int main(void)
{
    test_bool();
    test_numbers();
    test_sizes();
    test_others();
    test_format();
    return check_result();
}
