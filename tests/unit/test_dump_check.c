/* Files that a dump must not be written to, and incomplete streamed profiles. */
#include "check.h"
#include "jemalloc/dump.h"
#include "jemalloc/faults.h"
#include "proc_text.h"
#include "tree.h"

#include <sys/socket.h>
#include <sys/un.h>

static struct tree tree;
static struct procfs proc;
static const struct target target = {.proc = &proc, .pid = NO_PID, .pidfd = -1};

static fault_code check_existing(const char *path, bool replace)
{
    const struct dump_request request = {.path = path, .replace = replace};
    struct fault fault = {0};
    fault_code rc = dump_check(&target, &request, &fault);

    CHECK(rc == FAULT_NONE || (rc == fault.code && fault.what[0]));
    return rc;
}

static fault_code check_path(const char *path)
{
    return check_existing(path, false);
}

static void make_socket(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char former[TREE_PATH_MAX], path[TREE_PATH_MAX];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(getcwd(former, sizeof former) && chdir(tree_name(&tree, "root/dir", path)) == 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", name);
    CHECK(bind(fd, (const struct sockaddr *)(const void *)&address, sizeof address) == 0);
    CHECK(chdir(former) == 0);
    close(fd);
}

/* A target whose root is a directory, and whose working directory is one below that. */
static void make_target(void)
{
    char path[TREE_PATH_MAX];

    CHECK(tree_write(&tree, "root/dir/file", "x"));
    CHECK(mkfifo(tree_name(&tree, "root/dir/fifo", path), 0600) == 0);
    CHECK(mkfifo(tree_name(&tree, "root/above", path), 0600) == 0);
    make_socket("socket");
    CHECK(tree_link(&tree, "root/dir/link", "fifo"));
    CHECK(tree_link(&tree, "root/dir/absolute", "/dir/fifo"));
    CHECK(tree_link(&tree, "5000000/root", tree_name(&tree, "root", path)));
    CHECK(tree_link(&tree, "5000000/cwd", tree_name(&tree, "root/dir", path)));
}

static void test_allowed(void)
{
    static const char *const paths[] = {"/new", "new", "/none/new", "/dir"};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        CHECK(check_path(paths[i]) == FAULT_NONE);
    CHECK(check_path(NULL) == FAULT_NONE);
}

static void test_existing(void)
{
    CHECK(check_existing("/dir/file", false) == FAULT_DUMP_EXISTS);
    CHECK(check_existing("file", false) == FAULT_DUMP_EXISTS);
    CHECK(check_existing("/dir/file", true) == FAULT_NONE);
    CHECK(check_existing("file", true) == FAULT_NONE);
    CHECK(check_existing("/dir/fifo", true) == FAULT_DUMP_UNSAFE);
}

static void test_blocking(void)
{
    static const char *const paths[] = {"/dir/fifo", "fifo",          "/dir/link",   "link",
                                        "/above",    "/dir/../above", "/dir/socket", "socket",
                                        "./fifo",    "/dir/absolute"};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (!CHECK(check_path(paths[i]) == FAULT_DUMP_UNSAFE))
            fprintf(stderr, "  %s\n", paths[i]);
}

/* A relative path that leaves the working directory. */
static void test_blocking_upwards(void)
{
    CHECK(check_path("../above") == FAULT_DUMP_UNSAFE);
    CHECK(check_path("absolute") == FAULT_DUMP_UNSAFE);
}

static void test_limit(void)
{
    struct sink sink = {0};
    const struct dump_request stream = {.stream = &sink};

    CHECK(tree_write(&tree, "5000000/limits", "Max file size             4096    4096   bytes\n"));
    CHECK(check_path(NULL) == FAULT_DUMP_UNSAFE && check_path("/new") == FAULT_DUMP_UNSAFE);
    CHECK(dump_check(&target, &stream, NULL) == FAULT_NONE);
}

static void test_complete(void)
{
    static const char profile[] = "heap_v2/524288\n", title[] = "\nMAPPED_LIBRARIES:\n";
    static const char maps[] = "1000-2000 r-xp 0 0:0 0 /a\n";
    struct sink sink;
    char expected[256];

    sink_init(&sink, 200);
    memcpy(sink_reserve(&sink, sizeof profile), profile, sizeof profile - 1);
    sink.len = sizeof profile - 1;
    CHECK(dump_complete(&target, NULL, &sink, NULL) == FAULT_GONE &&
          sink.len == sizeof profile - 1);
    CHECK(tree_write(&tree, "5000000/maps", maps));
    CHECK(dump_complete(&target, NULL, &sink, NULL) == FAULT_NONE);
    int n = snprintf(expected, sizeof expected, "%s%s%s", profile, title, maps);
    CHECK(sink.len == (size_t)n && memcmp(sink.bytes, expected, (size_t)n) == 0);
    CHECK(dump_complete(&target, NULL, &sink, NULL) == FAULT_NONE && sink.len == (size_t)n);
    sink.len = sizeof profile - 1;
    sink.limit = (size_t)n - 1;
    CHECK(dump_complete(&target, NULL, &sink, NULL) == FAULT_TOO_LARGE);
    sink_free(&sink);
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    make_target();
    test_allowed();
    test_existing();
    test_blocking();
    test_blocking_upwards();
    test_limit();
    test_complete();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
