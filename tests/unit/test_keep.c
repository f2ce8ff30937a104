/* The number of profiles that are kept, and that nothing else is removed. */
#include "base/util.h"
#include "check.h"
#include "run/keep.h"
#include "tree.h"

static void test_names(void)
{
    CHECK(keep_name("redis-server-4242-20261120T102233Z-412MiB.watch.heap") == 12);
    CHECK(keep_name("a-1-20261120T102233Z-0MiB-cut-short.watch.heap") == 1);
    CHECK(keep_name("a-1-20261120T102233Z-0MiB-cut-short.watch-2.heap") == 1);
    CHECK(keep_name("a@0123456789ab@uid7-1-20261120T102233Z-0MiB.watch.heap") == 19);
    CHECK(keep_name("a-1-20261120T102233Z-0MiB-cut.watch.heap") == 0);
    CHECK(keep_name("a-1-20261120T102233Z-12.5GiB.watch.heap") == 1);
    CHECK(keep_name("a-1-20261120T102233Z-0MiB.watch-12.heap") == 1);
    CHECK(keep_name("a-7-8-9-1-20261120T102233Z-0MiB.watch.heap") == 7);
}

static void test_other_names(void)
{
    static const char *const names[] = {
        "",
        ".watch.heap",
        "redis-server-4242-20261120T102233Z-412MiB.heap", /* of another verb */
        "redis-server-4242-20261120T102233Z-412MiB.watch.heap.bak",
        "redis-server-4242-20261120T102233Z-412MiB.watch-.heap",
        "redis-server-4242-20261120T102233Z-412KiB.watch.heap",
        "redis-server-4242-20261120T102233Z-MiB.watch.heap",
        "redis-server-4242-20261120T10223Z-412MiB.watch.heap",
        "redis-server-4242-20261120102233Z-412MiB.watch.heap",
        "redis-server-20261120T102233Z-412MiB.watch.heap",
        "redis-server--20261120T102233Z-412MiB.watch.heap",
        "-4242-20261120T102233Z-412MiB.watch.heap",
        "a-1-20261120T102233Z-0MiB.uid7.watch.heap",
        "4242-20261120T102233Z-412MiB.watch.heap",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!CHECK(keep_name(names[i]) == 0))
            fprintf(stderr, "  %s\n", names[i]);
}

static bool exists(const struct tree *tree, const char *name)
{
    char path[TREE_PATH_MAX];

    return access(tree_name(tree, name, path), F_OK) == 0;
}

/* Written at that second of the wall clock. */
static bool write_at(const struct tree *tree, const char *name, time_t second)
{
    const struct timespec times[2] = {{second, 0}, {second, 0}};
    char path[TREE_PATH_MAX];

    return tree_write(tree, name, "") &&
           utimensat(AT_FDCWD, tree_name(tree, name, path), times, 0) == 0;
}

static void test_oldest_go(void)
{
    static const char *const ours[] = {
        "a-9-20251231T235959Z-1MiB.watch.heap",      "a-1-20260101T000000Z-900MiB.watch.heap",
        "a-1-20260101T000000Z-900MiB.watch-1.heap",  "a-1-20260101T000000Z-900MiB.watch-2.heap",
        "a-1-20260101T000000Z-900MiB.watch-10.heap", "a-5-20260101T000001Z-2MiB.watch.heap"};
    static const char *const others[] = {"a-9-20251231T235959Z-1MiB.heap",
                                         "aa-9-20201231T235959Z-1MiB.watch.heap",
                                         "b-9-20201231T235959Z-1MiB.watch.heap", "a", "notes"};
    struct tree tree;

    if (!CHECK(tree_make(&tree)))
        return;
    for (size_t i = 0; i < 6; i++)
        CHECK(write_at(&tree, ours[i], i == 0 ? 9000 : 1000 + (time_t)i));
    for (size_t i = 0; i < 5; i++)
        CHECK(tree_write(&tree, others[i], ""));
    CHECK(tree_link(&tree, "a-1-20200101T000000Z-1MiB.watch.heap", "notes"));
    CHECK(tree_write(&tree, "a-2-20200101T000000Z-1MiB.watch.heap/x", ""));
    CHECK(keep_newest(tree.path, ours[5], 6) == 0);
    CHECK(keep_newest(tree.path, ours[5], 5) == 1 && !exists(&tree, ours[0]));
    CHECK(keep_newest(tree.path, ours[5], 2) == 3);
    CHECK(!exists(&tree, ours[1]) && !exists(&tree, ours[2]) && !exists(&tree, ours[3]));
    CHECK(exists(&tree, ours[4]) && exists(&tree, ours[5]));
    for (size_t i = 0; i < 5; i++)
        CHECK(exists(&tree, others[i]));
    CHECK(exists(&tree, "a-1-20200101T000000Z-1MiB.watch.heap"));
    CHECK(exists(&tree, "a-2-20200101T000000Z-1MiB.watch.heap/x"));
    tree_remove(&tree);
}

/* Others' processes with the same name push no file of yours out, nor you one of theirs. */
static void test_others(void)
{
    static const char *const files[] = {
        "a-1-20260101T000000Z-1MiB.watch.heap",        "a@uid7-2-20260102T000000Z-1MiB.watch.heap",
        "a@uid7-2-20260103T000000Z-1MiB.watch-1.heap", "a@uid77-3-20260104T000000Z-1MiB.watch.heap",
        "a@uid7-2-20260105T000000Z-1MiB.watch.heap",   "a-1-20260106T000000Z-1MiB.watch.heap"};
    struct tree tree;

    if (!CHECK(tree_make(&tree)))
        return;
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        CHECK(tree_write(&tree, files[i], ""));
    CHECK(keep_newest(tree.path, files[4], 1) == 2);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        CHECK(exists(&tree, files[i]) == (i != 1 && i != 2));
    CHECK(keep_newest(tree.path, files[5], 1) == 1 && !exists(&tree, files[0]));
    CHECK(exists(&tree, files[3]) && exists(&tree, files[4]));
    tree_remove(&tree);
}

/* The wall clock was set back: the last profile written is kept nevertheless. */
static void test_newest_stays(void)
{
    static const char newest[] = "a-1-19990101T000000Z-1MiB.watch.heap",
                      older[] = "a-1-20260101T000000Z-1MiB.watch.heap";
    struct tree tree;

    if (!CHECK(tree_make(&tree)))
        return;
    CHECK(tree_write(&tree, newest, "") && tree_write(&tree, older, ""));
    CHECK(keep_newest(tree.path, newest, 1) == 1);
    CHECK(exists(&tree, newest) && !exists(&tree, older));
    CHECK(keep_newest(tree.path, "something else", 1) == 0);
    CHECK(keep_newest("/nosuchdir", newest, 1) == 0);
    tree_remove(&tree);
}

int main(void)
{
    test_names();
    test_other_names();
    test_oldest_go();
    test_others();
    test_newest_stays();
    return check_result();
}
