/* Text in columns: wide and unusual characters, cuts. */
#include "check.h"
#include "cli/output/columns.h"

#include <stdint.h>
#include <string.h>

static bool becomes(const char *text, size_t limit, const char *expected)
{
    char out[64];
    struct line line;

    line_init(&line, out, sizeof out, limit);
    line_add(&line, text);
    if (strcmp(out, expected) != 0)
        fprintf(stderr, "  got '%s'\n", out);
    return strcmp(out, expected) == 0 && line.columns <= limit && line.len == strlen(out) &&
           columns_of(out) == line.columns;
}

static void test_cut(void)
{
    CHECK(becomes("abcdef", 6, "abcdef") && becomes("abcdefg", 6, "abcd.."));
    CHECK(becomes("abc", 2, "..") && becomes("abc", 1, ".") && becomes("abc", 0, ""));
    CHECK(becomes("", 5, ""));
    CHECK(becomes("abcdef", SIZE_MAX, "abcdef"));
}

static void test_wide(void)
{
    CHECK(columns_of("日本") == 4 && columns_of("żółw") == 4);
    CHECK(becomes("日本語", 6, "日本語"));
    CHECK(becomes("日本語", 5, "日..")); /* two columns each: one stays empty */
    CHECK(becomes("日本語", 4, "日.."));
    CHECK(becomes("a日本語", 4, "a.."));
    CHECK(becomes("zażółć", 4, "za.."));
}

/* Controls of ASCII and Latin-1, broken UTF-8, characters that reverse the text direction. */
static void test_odd(void)
{
    CHECK(becomes("a\x1b[2Jb", 20, "a?[2Jb") && becomes("a\nb\tc\x7f", 20, "a?b?c?"));
    CHECK(becomes("a\xc2\x9b"
                  "2Jb",
                  20, "a?2Jb"));
    CHECK(becomes("\xff\xfe\xc0\x80", 20, "????") && becomes("\xe6\x97", 20, "??"));
    CHECK(becomes("\xed\xa0\x80", 20, "???") && becomes("\xf4\x90\x80\x80", 20, "????"));
    CHECK(becomes("a\xe2\x80\xae"
                  "b",
                  20, "ab") ||
          becomes("a\xe2\x80\xae"
                  "b",
                  20, "a?b"));
    CHECK(becomes("a\u200bb\u2060\ufeff", 20, "a?b??")); /* invisible, and not dropped */
    CHECK(becomes("e\xcc\x81", 20, "e")); /* a combining accent has no width of its own */
}

static void test_line(void)
{
    char out[32], small[6];
    struct line line;

    line_init(&line, out, sizeof out, 20);
    line_printf(&line, "%5d", 42);
    line_fill(&line, 8);
    line.limit = 16;
    CHECK(line_add(&line, "abcd") && !line_add(&line, "efghij"));
    CHECK(strcmp(out, "   42   abcdef..") == 0 && line_space(&line) == 0);
    line.limit = 20;
    line_fill(&line, 100);
    CHECK(line.columns == 20 && line_space(&line) == 0 && !line_add(&line, "x"));

    line_init(&line, small, sizeof small, 100); /* bytes end before columns do */
    CHECK(!line_add(&line, "日本語") && line.len < sizeof small && strcmp(small, "日..") == 0);
}

int main(void)
{
    test_cut();
    test_wide();
    test_odd();
    test_line();
    return check_result();
}
