/* JSON: it is valid, whatever the target's names are. */
#include "base/json.h"
#include "check.h"
#include "cli/several.h"

#include <stdlib.h>
#include <string.h>

/* True if the text becomes {"k": "..."}. */
static bool text_becomes(const char *text, const char *expected)
{
    struct json json;
    char *out = NULL, *whole = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);

    json_begin(&json, stream);
    json_text(&json, "k", text);
    json_end(&json);
    fclose(stream);
    if (asprintf(&whole, "{\"k\": \"%s\"}\n", expected) < 0)
        abort();
    bool same = strcmp(out, whole) == 0;
    if (!same)
        fprintf(stderr, "  got %s", out);
    free(out);
    free(whole);
    return same;
}

static void test_escapes(void)
{
    CHECK(text_becomes("", ""));
    CHECK(text_becomes("plain /path-1.0", "plain /path-1.0"));
    CHECK(text_becomes("a\"b\\c/", "a\\\"b\\\\c/"));
    CHECK(text_becomes("\n\t\r\b\f", "\\u000a\\u0009\\u000d\\u0008\\u000c"));
    CHECK(text_becomes("\x01\x1f\x20\x7e\x7f", "\\u0001\\u001f ~\\u007f"));
    CHECK(text_becomes("\x1b[31m", "\\u001b[31m"));
    CHECK(text_becomes("\\u0041", "\\\\u0041"));
    CHECK(text_becomes("\xc2\x80\xc2\x9b[31m\xc2\x9f", "\\u0080\\u009b[31m\\u009f")); /* C1 */
    CHECK(text_becomes("a\u202eb\u2069\u2028\u200f", "a\\u202eb\\u2069\\u2028\\u200f"));
}

/* Characters without a glyph; beyond U+FFFF as surrogates. */
static void test_invisible(void)
{
    CHECK(text_becomes("a\u00ad\u061cb", "a\\u00ad\\u061cb"));
    CHECK(text_becomes("\u200b\u2060\u3164\ufeff\ufffb", "\\u200b\\u2060\\u3164\\ufeff\\ufffb"));
    CHECK(text_becomes("\U000e0001\U000e007fz", "\\udb40\\udc01\\udb40\\udc7fz"));
    CHECK(text_becomes("\u00ae\u200a\u2010\u2070\ufffd\U000e1000",
                       "\u00ae\u200a\u2010\u2070\ufffd\U000e1000"));
}

/* RFC 3629: these pass unchanged. */
static void test_valid_utf8(void)
{
    static const char *const texts[] = {
        "\xc2\xa0",         "\xc3\xa9",         "\xdf\xbf",         "\xe0\xa0\x80",
        "\xe2\x82\xac",     "\xed\x9f\xbf",     "\xee\x80\x80",     "\xef\xbf\xbf",
        "\xf0\x90\x80\x80", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa9z\xe2\x82\xac",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK(text_becomes(texts[i], texts[i]));
}

static void test_invalid_utf8(void)
{
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {
        {"\x80", "\\ufffd"},
        {"\xbf\xbf", "\\ufffd\\ufffd"},
        {"\xc0\x80", "\\ufffd\\ufffd"}, /* too long a form */
        {"\xc1\xbf", "\\ufffd\\ufffd"},
        {"\xe0\x9f\xbf", "\\ufffd\\ufffd\\ufffd"},
        {"\xf0\x8f\xbf\xbf", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},            /* a surrogate */
        {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xff\xfe", "\\ufffd\\ufffd"},
        {"\xc3", "\\ufffd"}, /* cut short */
        {"\xe2\x82", "\\ufffd\\ufffd"},
        {"\xf0\x9f\x98", "\\ufffd\\ufffd\\ufffd"},
        {"\xc3(", "\\ufffd("},
        {"\xe2\x82\"", "\\ufffd\\ufffd\\\""},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(text_becomes(rows[i].text, rows[i].expected));
}

/* Every single byte, and every byte after one that begins a sequence. */
static void test_every_byte(void)
{
    for (unsigned byte = 1; byte < 256; byte++) {
        char text[2] = {(char)byte, '\0'}, expected[8];
        if (byte == '"' || byte == '\\')
            snprintf(expected, sizeof expected, "\\%c", byte);
        else if (byte < 0x20 || byte == 0x7f || strchr("<>&", (int)byte)) /* safe in <script> */
            snprintf(expected, sizeof expected, "\\u%04x", byte);
        else
            snprintf(expected, sizeof expected, "%s", byte < 0x80 ? text : "\\ufffd");
        CHECK(text_becomes(text, expected));
    }
}

static void test_members(void)
{
    struct json json;
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);

    json_begin(&json, stream);
    json_number(&json, "n", UINT64_MAX);
    json_bool(&json, "t", true);
    json_bool(&json, "f", false);
    json_null(&json, "0");
    json_text(&json, "a\"b", "c");
    json_end(&json);
    json_begin(&json, stream);
    json_end(&json);
    fclose(stream);
    CHECK(strcmp(out, "{\"n\": 18446744073709551615, \"t\": true, \"f\": false, \"0\": null, "
                      "\"a\\\"b\": \"c\"}\n{}\n") == 0);
    free(out);
}

/* An object in an object, and members after it. */
static void test_objects(void)
{
    struct json json;
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);

    json_begin(&json, stream);
    json_object_begin(&json, "a");
    json_object_end(&json);
    json_object_begin(&json, "b");
    json_signed(&json, "least", INT64_MIN);
    json_signed(&json, "most", INT64_MAX);
    json_object_end(&json);
    json_signed(&json, "c", -1);
    json_rounded(&json, "d", -2.6);
    json_rounded(&json, "e", 1e300);
    json_rounded(&json, "f", -9.3e18);
    json_end(&json);
    fclose(stream);
    CHECK(strcmp(out, "{\"a\": {}, \"b\": {\"least\": -9223372036854775808, "
                      "\"most\": 9223372036854775807}, \"c\": -1, \"d\": -3, "
                      "\"e\": 9223372036854775807, \"f\": -9223372036854775808}\n") == 0);
    free(out);
}

/* What is not known is null, and is not looked at. */
static void test_fields(void)
{
    const struct {
        uint64_t bytes;
    } known = {7}, *none = NULL;
    struct json json;
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);

    json_begin(&json, stream);
    JSON_MEMBERS(&json, NUMBER("n", UINT64_MAX), SIGNED("s", INT64_MIN), ROUNDED("r", -2.6),
                 FLAG("f", known.bytes == 7), FLAG("g", known.bytes != 7), TEXT("t", ""),
                 TEXT_OR_NULL("u", ""), TEXT_OR_NULL("v", NULL), TEXT_OR_NULL("w", "w"),
                 NOTHING("x"));
    JSON_OBJECT(&json, "o", NUMBER_IF(none, "a", none->bytes), NUMBER_IF(known.bytes, "b", 8),
                ROUNDED_IF(none, "c", (double)none->bytes), ROUNDED_IF(true, "d", 0.5 + 1),
                TEXT_IF(false, "e", "e"), TEXT_IF(true, "f", ""));
    json_list_begin(&json, "l");
    JSON_ITEM(&json, NUMBER("i", 0));
    JSON_ITEM(&json, NUMBER("i", 1), FLAG("j", true));
    json_list_end(&json);
    json_end(&json);
    fclose(stream);
    CHECK(strcmp(out, "{\"n\": 18446744073709551615, \"s\": -9223372036854775808, \"r\": -3, "
                      "\"f\": true, \"g\": false, \"t\": \"\", \"u\": null, \"v\": null, "
                      "\"w\": \"w\", \"x\": null, "
                      "\"o\": {\"a\": null, \"b\": 8, \"c\": null, \"d\": 2, \"e\": null, "
                      "\"f\": \"\"}, \"l\": [{\"i\": 0}, {\"i\": 1, \"j\": true}]}\n") == 0);
    free(out);
}

/* For any division of the text into pieces. */
static bool joins(const char *text, const char *expected)
{
    bool good = true;

    for (size_t piece = 1; piece <= strlen(text); piece++) {
        struct json_lines lines = {0};
        char *copy = strdup(text);
        size_t len = strlen(text);
        for (size_t at = 0; at < len; at += piece)
            json_lines_join(&lines, copy + at, len - at < piece ? len - at : piece);
        good = good && strcmp(copy, expected) == 0;
        free(copy);
    }
    return good;
}

static void test_lines(void)
{
    CHECK(joins("{\"a\": 1}\n", "{\"a\": 1}\n"));
    CHECK(joins("{\n\t\"a\": [1,\n2]\n}\n{\n}\n", "{  \"a\": [1, 2] }\n{ }\n"));
    CHECK(joins("{\"}\\\"\\\\\": \"{\",\n\"b\": \"\\\\\"\n}\n",
                "{\"}\\\"\\\\\": \"{\", \"b\": \"\\\\\" }\n"));
    CHECK(joins("a\n]\n}\nb\n", "a\n]\n}\nb\n"));
}

int main(void)
{
    test_escapes();
    test_invisible();
    test_valid_utf8();
    test_invalid_utf8();
    test_every_byte();
    test_members();
    test_objects();
    test_fields();
    test_lines();
    return check_result();
}
