/* Reading values out of JSON. */
#include "base/json_read.h"
#include "check.h"

#include <stdlib.h>

static struct cursor root(const char *text)
{
    return json_root(text, strlen(text));
}

static void test_members(void)
{
    struct cursor object =
        root(" { \"a\" : 1, \"b\":{\"a\":[2,\"}\\\"]\"],\"c\":3},\"c\":\"x\\\\\"} \n");
    struct cursor value, key;
    size_t members = 0;

    CHECK(json_find(object, "a", &value) && json_uint64(value) == 1);
    CHECK(json_find(object, "c", &value) && cursor_is(value, "\"x\\\\\""));
    CHECK(json_find(object, "b", &value) && json_find_uint64(value, "c") == 3);
    CHECK(!json_find(object, "d", &value) && json_find_uint64(object, "d") == 0);
    for (struct cursor rest = object; json_next(&rest, &key, &value); members++)
        CHECK(cursor_left(key) == 1);
    CHECK(members == 3);
}

static void test_items(void)
{
    struct cursor rest = root("[1 , [2,[3]],{\"a\":4},\"5,6\",true]"), value;
    static const char *const items[] = {"1", "[2,[3]]", "{\"a\":4}", "\"5,6\"", "true"};

    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        CHECK(json_next(&rest, NULL, &value) && cursor_is(value, items[i]));
    CHECK(!json_next(&rest, NULL, &value) && !json_next(&rest, NULL, &value));
    for (const char *const *text = (const char *const[]){"[]", "{}", "[ ]", "1", "", "\"a\"", NULL};
         *text; text++) {
        rest = root(*text);
        CHECK(!json_next(&rest, NULL, &value));
    }
}

static void test_numbers(void)
{
    CHECK(json_uint64(root("18446744073709551615")) == UINT64_MAX);
    CHECK(json_uint64(root("18446744073709551616")) == 0);
    CHECK(json_uint64(root("-1")) == 0 && json_uint64(root("1.5")) == 0);
    CHECK(json_uint64(root("1e3")) == 0 && json_uint64(root("\"1\"")) == 0);
}

static void test_texts(void)
{
    char out[8];

    json_copy_text(root("\"abc\""), out, sizeof out);
    CHECK(strcmp(out, "abc") == 0);
    json_copy_text(root("\"12345678\""), out, sizeof out);
    CHECK(strcmp(out, "") == 0);
    json_copy_text(root("\"a\\n\""), out, sizeof out);
    CHECK(strcmp(out, "") == 0);
    json_copy_text(root("1234"), out, sizeof out);
    CHECK(strcmp(out, "") == 0);
}

/* Each prefix of a text, in a block of its own: nothing is read past its end. */
static void test_cut(void)
{
    static const char text[] = "{\"a\":[1,{\"b\":\"\\\"\"}],\"c\":2}";
    struct cursor value;
    size_t found = 0;

    for (size_t len = 0; len < sizeof text; len++) {
        char *copy = malloc(len ? len : 1);
        memcpy(copy, text, len);
        found += json_find(json_root(copy, len), "c", &value);
        free(copy);
    }
    CHECK(found == 1);
}

int main(void)
{
    test_members();
    test_items();
    test_numbers();
    test_texts();
    test_cut();
    return check_result();
}
