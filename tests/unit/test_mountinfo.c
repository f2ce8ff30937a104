/* The entries of a mountinfo, over recorded texts. */
#include "check.h"
#include "host/cgroup.h"
#include "tree.h"

static const char whole[] =
    "25 1 8:1 / / rw - ext4 /dev/sda1 rw,errors=continue\n"
    "\n"
    "36 31 0:33 /docker/1 /cg/mem\\040ory rw shared:9 master:2 - cgroup c rw,memory\n"
    "37 31 0:34 / /half rw shared:9\n"
    "38 31 0:34 / /half rw - cgroup2\n"
    "41 31 0:38 / /cg2 rw - cgroup2 cgroup2 rw";

static void test_entries(void)
{
    struct cursor text = cursor_of(whole, sizeof whole - 1);
    struct mount_entry entry;

    CHECK(mountinfo_next(&text, &entry) && cursor_is(entry.point, "/"));
    CHECK(cursor_is(entry.type, "ext4") && cursor_is(entry.options, "rw,errors=continue"));
    CHECK(mountinfo_next(&text, &entry) && cursor_is(entry.root, "/docker/1"));
    CHECK(cursor_is(entry.point, "/cg/mem\\040ory") && cursor_is(entry.type, "cgroup"));
    CHECK(cursor_has_word(entry.options, ',', "memory"));
    CHECK(mountinfo_next(&text, &entry) && cursor_is(entry.point, "/cg2"));
    CHECK(!mountinfo_next(&text, &entry) && cursor_left(text) == 0);
}

/* Texts of exactly their length: the sanitizers notice a read past the end. */
static void test_truncated(void)
{
    for (size_t len = 0; len < sizeof whole; len++) {
        char *copy = malloc(len ? len : 1);
        struct mount_entry entry;
        size_t count = 0;
        if (!CHECK(copy != NULL))
            return;
        struct cursor text = cursor_of(memcpy(copy, whole, len), len);
        while (mountinfo_next(&text, &entry))
            count++;
        CHECK(count <= 3 && (count == 3 || len < sizeof whole - 1));
        free(copy);
    }
}

static bool unescapes(const char *part, const char *expected)
{
    char out[16];
    bool good = mountinfo_unescape(cursor_of(part, strlen(part)), out, sizeof out);

    return expected ? good && strcmp(out, expected) == 0 : !good;
}

static void test_escapes(void)
{
    CHECK(unescapes("/a\\040b\\134", "/a b\\") && unescapes("", "") && unescapes("\\12", "\\12"));
    CHECK(unescapes("\\0400", " 0") && unescapes("\\08", "\\08") && unescapes("\\377", "\377"));
    CHECK(unescapes("\\000", NULL) && unescapes("\\777", NULL));
    CHECK(unescapes("/23456789012345", "/23456789012345") && unescapes("/234567890123456", NULL));
}

static void test_files(void)
{
    struct tree tree;
    struct procfs proc;
    struct cursor text;
    char *own, *its, *none;

    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return;
    tree_write(&tree, "self/mountinfo", "own");
    tree_write(&tree, "42/mountinfo", whole);
    CHECK(mountinfo_read(&proc, PROC_SELF, &own, &text) && cursor_is(text, "own"));
    CHECK(mountinfo_read(&proc, 42, &its, &text) && cursor_is(text, whole));
    CHECK(!mountinfo_read(&proc, 43, &none, &text) && !none && cursor_left(text) == 0);
    free(own);
    free(its);
    procfs_close(&proc);
    tree_remove(&tree);
}

int main(void)
{
    test_entries();
    test_truncated();
    test_escapes();
    test_files();
    return check_result();
}
