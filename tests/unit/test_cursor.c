/* The cursor over text: lines, parts, numbers, and the bound of each. */
#include "base/cursor.h"
#include "check.h"

#include <stdlib.h>

static const char three_lines[] = "one\n\ntwo";
static const struct cursor lines = {three_lines, three_lines + sizeof(three_lines) - 1};

static void test_lines(void)
{
    struct cursor rest = lines, line;

    CHECK(cursor_take_line(&rest, &line) && cursor_is(line, "one"));
    CHECK(cursor_take_line(&rest, &line) && cursor_is(line, ""));
    CHECK(cursor_take_line(&rest, &line) && cursor_is(line, "two"));
    CHECK(!cursor_take_line(&rest, &line) && cursor_left(rest) == 0);
    rest = cursor_of("a\n", 2);
    CHECK(cursor_take_line(&rest, &line) && !cursor_take_line(&rest, &line));
}

static void test_parts(void)
{
    struct cursor rest = cursor_of("4:cpu,memory:/a:b", 17), part;

    CHECK(cursor_take_part(&rest, ':', &part) && cursor_is(part, "4"));
    CHECK(cursor_take_part(&rest, ':', &part) && cursor_has_word(part, ',', "memory"));
    CHECK(cursor_has_word(part, ',', "cpu") && !cursor_has_word(part, ',', "mem"));
    CHECK(!cursor_has_word(part, ',', "") && !cursor_has_word(part, ',', "cpu,memory"));
    CHECK(cursor_is(rest, "/a:b"));
}

static void test_texts(void)
{
    struct cursor rest = cursor_of("Name:\t x", 8), before = rest;

    CHECK(!cursor_take_text(&rest, "Name:\t xy") && rest.at == before.at);
    CHECK(!cursor_take_char(&rest, 'n') && cursor_take_text(&rest, "Name:"));
    cursor_skip_blanks(&rest);
    CHECK(cursor_is(rest, "x") && !cursor_is(rest, "") && !cursor_is(rest, "xy"));
    CHECK(cursor_take_char(&rest, 'x') && !cursor_take_char(&rest, 'x'));
    rest = before;
    CHECK(!cursor_find(&rest, "e:x") && rest.at == before.at);
    CHECK(cursor_find(&rest, "e:") && cursor_is(rest, "\t x"));
}

static void test_numbers(void)
{
    struct cursor rest = cursor_of("18446744073709551615x", 21), before;
    uint64_t value = 7;

    CHECK(cursor_take_decimal(&rest, &value) && value == UINT64_MAX && cursor_is(rest, "x"));
    CHECK(!cursor_take_decimal(&rest, &value) && value == UINT64_MAX);
    before = rest = cursor_of("18446744073709551616", 20);
    CHECK(!cursor_take_decimal(&rest, &value) && rest.at == before.at);
    rest = cursor_of("fFffffffffffffff-", 17);
    CHECK(cursor_take_hex(&rest, &value) && value == UINT64_MAX && cursor_is(rest, "-"));
    before = rest = cursor_of("10000000000000000", 17);
    CHECK(!cursor_take_hex(&rest, &value) && rest.at == before.at);
    rest = cursor_of("12", 1); /* the bound, not the text, ends a number */
    CHECK(cursor_take_decimal(&rest, &value) && value == 1);
    rest = cursor_of("", 0);
    CHECK(!cursor_take_decimal(&rest, &value) && !cursor_take_hex(&rest, &value));
}

static void test_keys(void)
{
    static const char text[] = "MemTotal: 5 kB\nMem:\nMem:  17 kB\nMem: 18\nOdd: x\n";
    struct cursor all = cursor_of(text, sizeof text - 1), line;
    uint64_t value;

    CHECK(cursor_find_number(all, "Mem:", &value) && value == 17);
    CHECK(cursor_find_line(all, "Mem", &line) && cursor_is(line, "Total: 5 kB"));
    CHECK(!cursor_find_number(all, "Odd:", &value) && !cursor_find_number(all, "Not:", &value));
    CHECK(!cursor_find_line(all, "Total", &line));
}

static void test_copy(void)
{
    char out[4];

    CHECK(cursor_copy(cursor_of("abc", 3), out, sizeof out) && strcmp(out, "abc") == 0);
    CHECK(!cursor_copy(cursor_of("abcd", 4), out, sizeof out));
    CHECK(!cursor_copy(cursor_of("a\0c", 3), out, sizeof out));
    CHECK(cursor_copy(cursor_of("", 0), out, sizeof out) && !*out);
}

/* Texts of exactly their length: the sanitizers notice a read past the end. */
static void test_bounds(void)
{
    static const char whole[] = "key: 12,a\nkey:";

    for (size_t len = 0; len < sizeof whole; len++) {
        char *copy = malloc(len ? len : 1);
        struct cursor text, line;
        uint64_t value;
        if (!CHECK(copy != NULL))
            return;
        text = cursor_of(memcpy(copy, whole, len), len);
        CHECK(cursor_find_number(text, "key:", &value) == (len > 5));
        CHECK(cursor_find_line(text, "key:", &line) == (len > 4));
        CHECK(cursor_has_word(text, ',', "a") == (len == 9));
        CHECK(!cursor_is(text, whole) || len == sizeof whole - 1);
        free(copy);
    }
}

int main(void)
{
    test_lines();
    test_parts();
    test_texts();
    test_numbers();
    test_keys();
    test_copy();
    test_bounds();
    return check_result();
}
