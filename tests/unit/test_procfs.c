/* Reading files below a directory that stands for /proc. */
#include "base/util.h"
#include "check.h"
#include "host/procfs.h"
#include "tree.h"

#include <errno.h>

static struct tree tree;
static struct procfs proc;

static void test_open(void)
{
    struct procfs other;
    char name[TREE_PATH_MAX];

    CHECK(procfs_open(&other, "/nonexistent/proc") == -ENOENT);
    CHECK(tree_write(&tree, "file", "x"));
    CHECK(procfs_open(&other, tree_name(&tree, "file", name)) == -ENOTDIR);
    CHECK(procfs_open(&other, tree.path) == 0);
    CHECK(fcntl(other.dirfd, F_GETFD) == FD_CLOEXEC);
    procfs_close(&other);
    CHECK(other.dirfd == -1);
    procfs_close(&other);
}

static void test_read(void)
{
    char buf[8];

    CHECK(tree_write(&tree, "42/comm", "1234567890"));
    memset(buf, 'x', sizeof buf);
    CHECK(procfs_read(&proc, buf, sizeof buf, "%d/comm", 42) == 7);
    CHECK(strcmp(buf, "1234567") == 0);
    CHECK(procfs_read(&proc, buf, sizeof buf, "%d/comm", 43) == -ENOENT);
    CHECK(procfs_read(&proc, buf, sizeof buf, "42") == -EISDIR);
    CHECK(tree_write(&tree, "42/empty", ""));
    CHECK(procfs_read(&proc, buf, sizeof buf, "42/empty") == 0);
    CHECK(buf[0] == '\0');
}

static void test_long_names(void)
{
    char buf[8], name[2000], *out;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK(procfs_read(&proc, buf, sizeof buf, "%s", name) == -ENAMETOOLONG);
    CHECK(procfs_slurp(&proc, &out, 100, "%s", name) == -ENAMETOOLONG && !out);
    CHECK(procfs_readlink(&proc, buf, sizeof buf, "%s", name) == -ENAMETOOLONG);
    CHECK(procfs_openf(&proc, O_RDONLY, "%s", name) == -ENAMETOOLONG);
}

/* Reads len bytes with a limit and checks each of them. */
static void slurp_size(size_t len, size_t limit, ssize_t expected)
{
    AUTO_FREE char *bytes = malloc(len + 1), *out = NULL;

    if (!CHECK(bytes != NULL))
        return;
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)('a' + i % 23);
    CHECK(tree_write_bytes(&tree, "slurp", bytes, len));
    CHECK(procfs_slurp(&proc, &out, limit, "slurp") == expected);
    CHECK((out != NULL) == (expected >= 0));
    if (out)
        CHECK(memcmp(out, bytes, len) == 0 && out[len] == '\0');
}

static void test_slurp(void)
{
    static const size_t sizes[] = {0,     1,     100,   32765, 32766, 32767,
                                   32768, 32769, 65535, 65536, 65537, 300000};
    char *out;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        slurp_size(sizes[i], 1 << 20, (ssize_t)sizes[i]);
        slurp_size(sizes[i], sizes[i], (ssize_t)sizes[i]);
        if (sizes[i])
            slurp_size(sizes[i], sizes[i] - 1, -EFBIG);
    }
    CHECK(procfs_slurp(&proc, &out, 100, "nothing") == -ENOENT && !out);
    CHECK(procfs_slurp(&proc, &out, 100, "42") == -EISDIR && !out);
}

static void test_readlink(void)
{
    char buf[8];

    CHECK(tree_link(&tree, "42/cwd", "/abcdefghij"));
    CHECK(procfs_readlink(&proc, buf, sizeof buf, "%d/cwd", 42) == 7);
    CHECK(strcmp(buf, "/abcdef") == 0);
    CHECK(procfs_readlink(&proc, buf, sizeof buf, "42/exe") == -ENOENT);
    CHECK(procfs_readlink(&proc, buf, sizeof buf, "42/comm") == -EINVAL);
}

static void test_openf(void)
{
    AUTO_CLOSE int fd = procfs_openf(&proc, O_RDONLY, "%s/%s", "42", "comm");

    CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    CHECK(procfs_openf(&proc, O_RDONLY, "42/none") == -ENOENT);
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_open();
    test_read();
    test_long_names();
    test_slurp();
    test_readlink();
    test_openf();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
