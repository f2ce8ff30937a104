/* Valid and invalid JSON (RFC 8259). */
#include "base/json.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

/* In a block of its own, so that a sanitizer notices a read beyond its end. */
static bool valid(const char *text)
{
    size_t len = strlen(text);
    char *copy = malloc(len ? len : 1);

    memcpy(copy, text, len);
    bool good = json_valid(copy, len);
    free(copy);
    return good;
}

static void test_valid(void)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        " [ ] ",
        "0",
        "-1",
        "1.5e+3",
        "1E2",
        "\"\"",
        "true",
        "null\n",
        "{\"a\":1,\"b\":[{},[],{\"c\":\"\\u00e9\\n\"}]}",
        "\t{\n\"jemalloc\" : { } }\r\n",
        "\"\xc3\xa9\"",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK(valid(texts[i]));
}

static void test_invalid(void)
{
    static const char *const texts[] = {
        "",         " ",       "{",        "[",          "{]",
        "[}",       "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[1,]",
        "[,1]",     "01",      "-",        "1.",         ".5",
        "1e",       "+1",      "nan",      "tru",        "truex",
        "\"",       "\"\\",    "\"\\x\"",  "\"\\u12\"",  "\"\\u12g4\"",
        "\"a\nb\"", "{} {}",   "{a:1}",    "{'a':1}",    "___ Begin jemalloc statistics",
        "\"\x1b\"",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK(!valid(texts[i]));
}

/* Nesting is limited, and so is the stack that the check uses. */
static void test_depth(void)
{
    char *text = malloc(2000001);

    memset(text, '[', 2000000);
    text[2000000] = '\0';
    CHECK(!valid(text));
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    text[2 * JSON_DEPTH_MAX] = '\0';
    CHECK(valid(text));
    memset(text, '[', JSON_DEPTH_MAX + 1);
    memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    text[2 * JSON_DEPTH_MAX + 2] = '\0';
    CHECK(!valid(text));
    free(text);
}

int main(void)
{
    test_valid();
    test_invalid();
    test_depth();
    return check_result();
}
