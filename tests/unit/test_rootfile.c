/* Files of a root: nothing but regular ones, nothing outside, with and without openat2(2). */
#include "check.h"
#include "elf/rootfile.h"
#include "tree.h"

#include <errno.h>
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
    int fd = root_open_file(root, path);

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

/* openat2(2) is answered with ENOSYS from here on. */
static bool forbid_openat2(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* In a process of its own; its exit code is the count of failures. */
static int without_openat2(int root)
{
    char path[TREE_PATH_MAX];
    AUTO_CLOSE int own = root_open(NULL);

    checks_failed = 0;
    CHECK(forbid_openat2() && own >= 0);
    CHECK(result_of(root, "/file") == -ENOSYS);
    CHECK(result_of(own, tree_name(&tree, "root/file", path)) == 0);
    CHECK(result_of(own, tree_name(&tree, "root/fifo", path)) == -EINVAL);
    CHECK(result_of(own, "etc/passwd") == -ENOSYS);
    return (int)checks_failed;
}

static void test_old_kernel(int root)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(without_openat2(root));
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
        test_old_kernel(root);
        close(root);
    }
    tree_remove(&tree);
    return check_result();
}
