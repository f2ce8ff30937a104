/* The environment of a process, from its file and from its memory. */
#include "attach/memory.h"
#include "check.h"
#include "own.h"
#include "proc_text.h"
#include "tree.h"

#include <errno.h>
#include <sys/wait.h>

static struct own own;
static struct tree tree;
static struct procfs recorded;

static const char strings[] = "A=b\0MALLOC_CONF=prof:true";

/* The address range of the environment of the tree's process: in this process. */
static void record(const char *start, size_t len)
{
    char name[48], text[512];

    snprintf(name, sizeof name, "%d/stat", NO_PID);
    snprintf(text, sizeof text,
             "%d (x) S 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 500 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 "
             "0 0 0 0 0 0 1 1 1 1 1 %llu %llu 0\n",
             NO_PID, (unsigned long long)(uintptr_t)start,
             (unsigned long long)((uintptr_t)start + len));
    CHECK(tree_write(&tree, name, text));
}

static void test_file(void)
{
    AUTO_FREE char *text = NULL;
    ssize_t n = environ_read(&own.target, &own.memory, &text, 1 << 20);

    CHECK(n > 0 && text && text[n] == '\0' && strchr(text, '='));
    AUTO_FREE char *more = NULL;
    CHECK(environ_read(&own.target, &own.memory, &more, 2) == -EFBIG && !more);
}

/* As a user who may not read the file; false with the reason on stderr. */
static bool read_refused(size_t limit, ssize_t expected)
{
    struct target target = {.proc = &recorded, .pid = NO_PID, .pidfd = -1};
    AUTO_FREE char *text = NULL;
    ssize_t n = environ_read(&target, &own.memory, &text, limit);

    if (n != expected)
        fprintf(stderr, "  %zd instead of %zd\n", n, expected);
    return n == expected && (n < 0 ? !text : text && !memcmp(text, strings, (size_t)n));
}

static void test_memory(void)
{
    const size_t len = sizeof strings;

    record(strings, len);
    CHECK(read_refused(1 << 20, (ssize_t)len));
    CHECK(read_refused(len, (ssize_t)len));
    CHECK(read_refused(len - 1, -EFBIG));
    record(strings, 0);
    CHECK(read_refused(1 << 20, 0));
    record(NULL, 0); /* shown to users who may not trace it */
    CHECK(read_refused(1 << 20, -EACCES));
    record(strings, (size_t)-8); /* ends before it begins */
    CHECK(read_refused(1 << 20, -EACCES));
    record((const char *)4096, 64);
    CHECK(read_refused(1 << 20, -EFAULT));
    CHECK(tree_write(&tree, "5000000/stat", "no such thing"));
    CHECK(read_refused(1 << 20, -EACCES));
}

/* A file that may not be read, by a process without privileges. */
static int as_nobody(void)
{
    if (geteuid() == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
        return 2;
    test_memory();
    return check_result();
}

static void test_refused(void)
{
    char name[TREE_PATH_MAX];
    int status = 0;

    record(strings, sizeof strings);
    CHECK(tree_write(&tree, "5000000/environ", "X=not this one"));
    chmod(tree_name(&tree, "5000000/environ", name), 0);
    chmod(tree.path, 0777);
    chmod(tree_name(&tree, "5000000", name), 0777);
    chmod(tree_name(&tree, "5000000/stat", name), 0666);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        own.memory.pid = getpid(); /* the child's own memory is to be read */
        int rc = as_nobody();
        fflush(stdout);
        _exit(rc);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_gone(void)
{
    struct target nobody = {.proc = &recorded, .pid = NO_PID + 1, .pidfd = -1};
    AUTO_FREE char *text = NULL;

    CHECK(environ_read(&nobody, &own.memory, &text, 1 << 20) == -ENOENT && !text);
}

int main(void)
{
    if (!CHECK(own_open(&own)) || !CHECK(tree_make(&tree)) ||
        !CHECK(procfs_open(&recorded, tree.path) == 0))
        return check_result();
    test_file();
    test_refused();
    test_gone();
    procfs_close(&recorded);
    tree_remove(&tree);
    own_close(&own);
    return check_result();
}
