/* File names made from properties of a process. */
#include "check.h"
#include "run/filename.h"
#include "tree.h"

#include <string.h>

/* 2026-11-20 10:22:33 UTC */
static const struct filename_facts facts = {.name = "redis-server",
                                            .host = "db7",
                                            .pid = 4242,
                                            .ns_pid = 1,
                                            .time = 1795170153,
                                            .rss_bytes = (uint64_t)41 << 20};

static char out[FILENAME_MAX_BYTES];

static bool gives(const char *template, const char *wanted)
{
    bool good =
        filename_expand(template, ".heap", &facts, out, sizeof out) && strcmp(out, wanted) == 0;

    if (!good)
        fprintf(stderr, "%s: %s\n", template, out);
    return good;
}

static void test_directives(void)
{
    CHECK(gives("x.heap", "x.heap"));
    CHECK(gives("%n", "redis-server"));
    CHECK(gives("%p", "4242"));
    CHECK(gives("%P", "1"));
    CHECK(gives("%t", "20261120T102233Z"));
    CHECK(gives("%r", "41MiB"));
    CHECK(gives("%h", "db7"));
    CHECK(gives("%%", "%"));
    CHECK(gives("/nosuch/%h/%n-%p-%t-%r.pb.gz",
                "/nosuch/db7/redis-server-4242-20261120T102233Z-41MiB.pb.gz"));
    CHECK(gives("100%%p", "100%p"));
}

/* The user's time zone does not matter. */
static void test_time_zone(void)
{
    setenv("TZ", "Asia/Kathmandu", 1);
    tzset();
    CHECK(gives("%t", "20261120T102233Z"));
    unsetenv("TZ");
    tzset();
}

static void test_sizes(void)
{
    struct filename_facts large = facts;

    large.rss_bytes = 0;
    CHECK(filename_expand("%r", "", &large, out, sizeof out) && strcmp(out, "0MiB") == 0);
    large.rss_bytes = ((uint64_t)10 << 30) - 1;
    CHECK(filename_expand("%r", "", &large, out, sizeof out) && strcmp(out, "10239MiB") == 0);
    large.rss_bytes = (uint64_t)25 << 29;
    CHECK(filename_expand("%r", "", &large, out, sizeof out) && strcmp(out, "12.5GiB") == 0);
}

static const char *named(const char *name)
{
    struct filename_facts evil = facts;

    snprintf(evil.name, sizeof evil.name, "%s", name);
    snprintf(evil.host, sizeof evil.host, "%s", name);
    return filename_expand("%n+%h", "", &evil, out, sizeof out) ? out : "";
}

/* A process chooses its name: it must not lead elsewhere, nor look like an option. */
static void test_untrusted(void)
{
    CHECK(strcmp(named("../../etc/x"), "_._.._etc_x+_._.._etc_x") == 0);
    CHECK(strcmp(named("/"), "_+_") == 0);
    CHECK(strcmp(named("."), "_+_") == 0);
    CHECK(strcmp(named(".."), "_.+_.") == 0);
    CHECK(strcmp(named("-rf"), "_rf+_rf") == 0);
    CHECK(strcmp(named(""), "_+_") == 0);
    CHECK(strcmp(named("a\nb\tc\x1b[31m\x7f"), "a_b_c__31m_+a_b_c__31m_") == 0);
    CHECK(strcmp(named("%p%%"), "_p__+_p__") == 0);
    CHECK(strcmp(named("a b"), "a_b+a_b") == 0);
    CHECK(strcmp(named("\xc3\xa4\xff"), "___+___") == 0);
    CHECK(strcmp(named("a'b\"c"), "a_b_c+a_b_c") == 0);
    CHECK(strcmp(named("x;$(id)`id`"), "x___id__id_+x___id__id_") == 0);
    CHECK(strcmp(named("a|b&c<d>e"), "a_b_c_d_e+a_b_c_d_e") == 0);
    CHECK(strcmp(named("~*?[]{}!#\\^=,:"), "______________+______________") == 0);
    CHECK(strcmp(named("a.b_c+d-e@f"), "a.b_c+d-e@f+a.b_c+d-e@f") == 0);
}

static void test_wrong(void)
{
    char longest[FILENAME_MAX_BYTES + 1];

    CHECK(filename_check("x") == FILENAME_GOOD &&
          filename_check("%n-%p-%P-%t-%r-%h-%%") == FILENAME_GOOD);
    CHECK(filename_check("%h/%n/%p/%t-%r") == FILENAME_GOOD);
    CHECK(filename_check("") != FILENAME_GOOD);
    CHECK(filename_check("%") != FILENAME_GOOD && filename_check("x%") != FILENAME_GOOD);
    CHECK(filename_check("%x") != FILENAME_GOOD && filename_check("%N") != FILENAME_GOOD);
    CHECK(filename_check("%t/x") != FILENAME_GOOD && filename_check("a%r/b/x") != FILENAME_GOOD);
    CHECK(filename_check("%%t/x") == FILENAME_GOOD);
    memset(longest, 'x', sizeof longest);
    longest[FILENAME_MAX_BYTES] = '\0';
    CHECK(filename_check(longest) != FILENAME_GOOD);
    longest[FILENAME_MAX_BYTES - 1] = '\0';
    CHECK(filename_check(longest) == FILENAME_GOOD);
    CHECK(filename_has_directives("%n") && !filename_has_directives("n"));
}

/* No byte is written beyond the buffer, whatever its size. */
static void test_sizes_of_buffer(void)
{
    const char *wanted = "redis-server-4242.heap";
    size_t len = strlen(wanted);

    for (size_t size = 1; size < len + 3; size++) {
        memset(out, '#', sizeof out);
        bool fits = filename_expand("%n-%p.heap", "", &facts, out, size);
        CHECK(fits == (size > len));
        CHECK(out[size] == '#');
        CHECK(!fits || strcmp(out, wanted) == 0);
    }
}

static void test_directory(void)
{
    struct tree tree;
    char template[TREE_PATH_MAX + 8], wanted[TREE_PATH_MAX + 128];
    const char *name = "redis-server-4242-20261120T102233Z-41MiB.heap";

    if (!CHECK(tree_make(&tree)))
        return;
    snprintf(wanted, sizeof wanted, "%s/%s", tree.path, name);
    CHECK(gives(tree.path, wanted));
    snprintf(template, sizeof template, "%s/", tree.path);
    CHECK(gives(template, wanted));
    snprintf(template, sizeof template, "%s/x", tree.path);
    CHECK(gives(template, template));
    CHECK(gives("nosuch/", "nosuch/redis-server-4242-20261120T102233Z-41MiB.heap"));
    tree_remove(&tree);
}

static bool numbered(const char *path, unsigned number, const char *wanted)
{
    return filename_number(path, number, out, sizeof out) && strcmp(out, wanted) == 0;
}

static void test_number(void)
{
    CHECK(filename_mark("x.pb.gz", "cut-short", out, sizeof out) &&
          strcmp(out, "x-cut-short.pb.gz") == 0);
    CHECK(!filename_mark("x.heap", "cut-short", out, sizeof "x-cut-short.heap" - 1));
    CHECK(numbered("x.heap", 0, "x.heap"));
    CHECK(numbered("x.heap", 1, "x-1.heap"));
    CHECK(numbered("x.pb.gz", 12, "x-12.pb.gz"));
    CHECK(numbered("x.1.pb.gz", 1, "x.1-1.pb.gz"));
    CHECK(numbered("x.gz", 1, "x-1.gz"));
    CHECK(numbered("x", 2, "x-2"));
    CHECK(numbered("a.b/x", 2, "a.b/x-2"));
    CHECK(numbered("a.b/.x", 2, "a.b/.x-2"));
    CHECK(!filename_number("x.heap", 1, out, 8) && filename_number("x.heap", 1, out, 9));
}

int main(void)
{
    test_directives();
    test_time_zone();
    test_sizes();
    test_untrusted();
    test_wrong();
    test_sizes_of_buffer();
    test_directory();
    test_number();
    return check_result();
}
