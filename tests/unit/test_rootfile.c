/* Files of a root: only regular ones, none outside, with and without openat2(2). */
#include "check.h"
#include "elf/modulefile.h"
#include "tree.h"

#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

static struct tree tree;

static int result_of(int root, const char *path)
{
    int fd = root_open_file(root, path, INROOT_FOLLOW);

    if (fd < 0)
        return fd;
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK((fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH)) == O_RDONLY);
    close(fd);
    return 0;
}

static void make_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
    CHECK(bind(fd, (const struct sockaddr *)&address, sizeof address) == 0);
    close(fd);
}

static void test_kinds(int root)
{
    char path[TREE_PATH_MAX];

    CHECK(result_of(root, "/file") == 0 && result_of(root, "file") == 0);
    CHECK(result_of(root, "/nothing") == -ENOENT && result_of(root, "/file/x") == -ENOTDIR);
    CHECK(result_of(root, "/") == -EINVAL && result_of(root, "") == -ENOENT);
    CHECK(mkfifo(tree_name(&tree, "root/fifo", path), 0644) == 0);
    CHECK(result_of(root, "/fifo") == -EINVAL);
    make_socket(tree_name(&tree, "root/socket", path));
    CHECK(result_of(root, "/socket") == -EINVAL);
    CHECK(tree_write(&tree, "root/empty", "") && result_of(root, "/empty") == -EINVAL);
}

static void test_links(int root)
{
    CHECK(tree_link(&tree, "root/inside", "/file") && result_of(root, "/inside") == 0);
    CHECK(tree_link(&tree, "root/up", "../../../file") && result_of(root, "/up") == 0);
    CHECK(tree_link(&tree, "root/outside", "../outside"));
    CHECK(result_of(root, "/outside") == -ELOOP); /* is itself, from the root */
    CHECK(tree_link(&tree, "root/host", "/etc/passwd") && result_of(root, "/host") == -ENOENT);
    CHECK(tree_link(&tree, "root/magic", "/proc/self/exe") && result_of(root, "/magic") == -ENOENT);
    CHECK(result_of(root, "../outside") == -ENOENT || result_of(root, "../outside") == -ELOOP);
}

static ino_t inode_of(int named)
{
    struct stat st;
    ino_t inode = named >= 0 && fstat(named, &st) == 0 ? st.st_ino : 0;

    if (named >= 0)
        close(named);
    return inode;
}

/* Both results for a path: the same file, or no file for the same reason. */
static bool agree(int root, const char *path)
{
    bool same = true;

    for (enum inroot_links links = INROOT_FOLLOW; links <= INROOT_NO_LINKS; links++) {
        int kernel = inroot_name(root, path, links), walk = inroot_walk(root, path, links);
        if (kernel >= 0 && walk >= 0)
            same = inode_of(kernel) == inode_of(walk) && same;
        else
            same = kernel == walk && same;
    }
    return same;
}

static void test_ways(int root)
{
    static const char *const paths[] = {
        "/",
        "",
        ".",
        "..",
        "/..",
        "file",
        "//file",
        "/file/",
        "/file/.",
        "/file/..",
        "/dir",
        "/dir/",
        "/dir/..",
        "/dir/../file",
        "/dir/../../../file",
        "/dir/deep/../../file",
        "/dir/up/file",
        "/dir/away",
        "/dir/away/passwd",
        "/round",
        "/round/x",
        "/dir/here",
        "/dir/here/here/here/deep",
        "/nothing/..",
        "/dir/last",
        "/dir/last/",
        "/inside/..",
    };
    char path[TREE_PATH_MAX], far[2 * PATH_MAX];

    mkdir(tree_name(&tree, "root/dir", path), 0755);
    mkdir(tree_name(&tree, "root/dir/deep", path), 0755);
    CHECK(tree_link(&tree, "root/dir/up", "../../.."));
    CHECK(tree_link(&tree, "root/dir/away", "/etc"));
    CHECK(tree_link(&tree, "root/round", "round"));
    CHECK(tree_link(&tree, "root/dir/here", "."));
    CHECK(tree_link(&tree, "root/dir/last", "deep/"));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        CHECK(agree(root, paths[i]));
    for (size_t n = NAME_MAX; n <= NAME_MAX + 1; n++) {
        memset(far, 'x', n);
        far[n] = '\0';
        CHECK(agree(root, far));
    }
    memset(far, '/', sizeof far);
    far[PATH_MAX - 1] = '\0';
    CHECK(agree(root, far));
    far[PATH_MAX - 1] = '/';
    far[PATH_MAX] = '\0';
    CHECK(agree(root, far));
}

/* A directory full of directories, deeper than a walk keeps open. */
static void test_depth(int root)
{
    char path[4096] = "d";
    int at = dup(root);

    for (int depth = 0; depth < 200 && at >= 0; depth++) {
        CHECK(mkdirat(at, "d", 0755) == 0 || errno == EEXIST);
        int next = openat(at, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    for (int depth = 1; depth < 100; depth++)
        strcat(path, "/d");
    CHECK(agree(root, path));
    strcat(path, "/../../d/d");
    CHECK(agree(root, path));
    for (int depth = 0; depth < 50; depth++)
        strcat(path, "/d");
    CHECK(inroot_walk(root, path, INROOT_FOLLOW) == -ENAMETOOLONG);
}

/* openat2(2) fails with that errno from here on. */
static bool forbid_openat2(unsigned err)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* In a process of its own; its exit code is the number of failures. */
static int without_openat2(int root, unsigned err)
{
    char path[TREE_PATH_MAX];
    AUTO_CLOSE int own = root_open(NULL);

    checks_failed = 0;
    CHECK(forbid_openat2(err) && own >= 0);
    CHECK(syscall(SYS_openat2, root, "file", NULL, 0) < 0 && errno == (int)err);
    CHECK(result_of(own, tree_name(&tree, "root/file", path)) == 0);
    CHECK(result_of(own, tree_name(&tree, "root/fifo", path)) == -EINVAL);
    unlink(tree_name(&tree, "root/fifo", path));
    unlink(tree_name(&tree, "root/socket", path));
    test_kinds(root);
    test_links(root);
    test_ways(root);
    return (int)checks_failed;
}

/* Linux before 5.6 has no openat2(2), and some seccomp profiles do not know it. */
static void test_refused(int root, unsigned err)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(without_openat2(root, err));
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
    char path[TREE_PATH_MAX];

    if (!CHECK(tree_make(&tree)))
        return check_result();
    CHECK(tree_write(&tree, "root/file", "x") && tree_write(&tree, "outside", "x"));
    int root = open(tree_name(&tree, "root", path), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (CHECK(root >= 0)) {
        test_kinds(root);
        test_links(root);
        test_ways(root);
        test_depth(root);
        test_refused(root, ENOSYS);
        test_refused(root, EPERM);
        close(root);
    }
    tree_remove(&tree);
    return check_result();
}
