/* Words that a mistyped one may stand for. */
#include "base/suggest.h"
#include "base/util.h"
#include "check.h"

#include <stdint.h>
#include <string.h>

static void test_edits(void)
{
    static const struct {
        const char *a, *b;
        size_t edits;
    } rows[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"abc", "", 3},
        {"dump", "dump", 0},
        {"dmup", "dump", 1},
        {"dum", "dump", 1},
        {"dumpp", "dump", 1},
        {"damp", "dump", 1},
        {"ab", "ba", 1},
        {"ca", "abc", 3},
        {"DUMP", "dump", 0},
        {"mib", "MiB", 0},
        {"kitten", "sitting", 3},
        {"format", "fromat", 1},
        {"leak", "peek", 2},
        {"abcd", "dcba", 3},
        {"abcd", "badc", 2},
    };
    char longest[SUGGEST_LENGTH_MAX + 2];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t forth = suggest_edits(rows[i].a, rows[i].b);
        size_t back = suggest_edits(rows[i].b, rows[i].a);
        if (!CHECK(forth == rows[i].edits && back == rows[i].edits))
            fprintf(stderr, "  %s %s: %zu %zu\n", rows[i].a, rows[i].b, forth, back);
    }
    memset(longest, 'x', sizeof longest);
    longest[SUGGEST_LENGTH_MAX + 1] = '\0';
    CHECK(suggest_edits(longest, "x") == SIZE_MAX && suggest_edits("x", longest) == SIZE_MAX);
    longest[SUGGEST_LENGTH_MAX] = '\0';
    CHECK(suggest_edits(longest, "x") == SUGGEST_LENGTH_MAX - 1);
    CHECK(suggest_edits(longest, longest) == 0);
    CHECK(suggest_edits("\xb2\xff", "x") == 2);
}

/* The suggestions for a wrong word, out of some verbs. */
static const char *suggested(const char *wrong, const char *prefix)
{
    static const char *const words[] = {"ps",   "status", "on",    "off",   "dump", "record",
                                        "leak", "report", "stats", "purge", "top",  "stats"};
    static char text[128];
    struct suggestion suggestion;

    suggest_begin(&suggestion, wrong);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        suggest_consider(&suggestion, words[i]);
    return suggest_text(&suggestion, prefix, text, sizeof text);
}

static void test_suggestions(void)
{
    static const struct {
        const char *wrong, *words;
    } rows[] = {
        {"dmup", "dump"},
        {"DUMP", "dump"},
        {"Dmup", "dump"},
        {"stats", "stats"},
        {"stat", "status or stats"},
        {"rec", "record"},
        {"statsu", "status or stats"},
        {"of", "on or off"},
        {"recod", "record"},
        {"laek", "leak"},
        {"purgee", "purge"},
        {"", ""},
        {"x", ""},
        {"o", ""},
        {"frobnicate", ""},
        {"dxmq", ""},
        {"topdump", ""},
        {"redis", ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!CHECK(strcmp(suggested(rows[i].wrong, ""), rows[i].words) == 0))
            fprintf(stderr, "  %s: %s\n", rows[i].wrong, suggested(rows[i].wrong, ""));
    CHECK(strcmp(suggested("stat", "--"), "--status or --stats") == 0);
}

/* More than can be listed, and less room than they need. */
static void test_many(void)
{
    static const char *const words[] = {"ab1", "ab2", "ab3", "ab4", "ab5"};
    struct suggestion suggestion;
    char text[64], small[6];

    suggest_begin(&suggestion, "ab");
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        suggest_consider(&suggestion, words[i]);
    CHECK(suggestion.count == SUGGEST_WORDS_MAX);
    CHECK(strcmp(suggest_text(&suggestion, "", text, sizeof text), "ab1, ab2, ab3 or ab4") == 0);
    CHECK(strcmp(suggest_text(&suggestion, "", small, sizeof small), "ab1, ") == 0);
}

int main(void)
{
    test_edits();
    test_suggestions();
    test_many();
    return check_result();
}
