/*
 * One system call on a file, and its result: filing CALL PATH. The file may be on a server that
 * answers late. An allocator's interface is linked in, so that the tool attaches to it.
 *
 * mkdir is made by a supervisor (seccomp's user notification), when it has read a line from stdin;
 * mkdir_beside: another thread waits meanwhile.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *path;
static int fd = -1;
static char bytes[4096];

static void open_it(void)
{
    fd = open(path, O_RDWR);
}

static void open_directory(void)
{
    fd = open(path, O_RDONLY | O_DIRECTORY);
}

/* A connection with SO_LINGER and bytes that are not read before the end of the test. */
static void connect_it(void)
{
    const struct linger linger = {1, 3600};
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &len) ||
        connect(fd, (struct sockaddr *)&address, sizeof address) ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger))
        exit(1);
    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

/* Makes the directory for the other process at each notification, after a byte on stdin. */
static void supervise(int listener)
{
    struct seccomp_notif asked = {0};
    char told;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        memset(&asked, 0, sizeof asked);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked))
            _exit(1);
        if (read(STDIN_FILENO, &told, 1) < 0)
            _exit(1);
        struct seccomp_notif_resp answer = {.id = asked.id};
        if (mkdirat(AT_FDCWD, path, 0700))
            answer.error = -errno;
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

static void be_supervised(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (listener < 0) {
        puts("skip");
        exit(0);
    }
    if (fork() == 0)
        supervise(listener);
}

static void *wait_beside(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void be_supervised_beside(void)
{
    pthread_t thread;

    be_supervised();
    pthread_create(&thread, NULL, wait_beside, NULL);
}

static long make_mkdir(void)
{
    return syscall(SYS_mkdir, path, 0700);
}

static long make_open(void)
{
    return open(path, O_RDONLY) < 0 ? -1 : 0;
}

static long make_stat(void)
{
    struct stat st;

    return stat(path, &st);
}

static long make_statfs(void)
{
    struct statfs fs;

    return statfs(path, &fs);
}

static long make_access(void)
{
    return access(path, R_OK);
}

static long make_getdents(void)
{
    return syscall(SYS_getdents64, fd, bytes, sizeof bytes);
}

static long make_getxattr(void)
{
    return getxattr(path, "user.x", bytes, sizeof bytes) < 0 ? -1 : 0;
}

static long make_fsync(void)
{
    return fsync(fd);
}

static long make_ftruncate(void)
{
    return ftruncate(fd, 0);
}

static long make_fallocate(void)
{
    return fallocate(fd, 0, 0, 4096);
}

static long make_pread(void)
{
    return pread(fd, bytes, sizeof bytes, 0);
}

static long make_pwrite(void)
{
    return pwrite(fd, bytes, 8, 0) == 8 ? 0 : -1;
}

static long make_close(void)
{
    return close(fd);
}

static long make_dup2(void)
{
    return dup2(STDIN_FILENO, fd) < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*prepare)(void);
        long (*make)(void);
    } calls[] = {
        {"open", NULL, make_open},
        {"stat", NULL, make_stat},
        {"statfs", NULL, make_statfs},
        {"access", NULL, make_access},
        {"getxattr", NULL, make_getxattr},
        {"getdents", open_directory, make_getdents},
        {"fsync", open_it, make_fsync},
        {"ftruncate", open_it, make_ftruncate},
        {"fallocate", open_it, make_fallocate},
        {"pread", open_it, make_pread},
        {"pwrite", open_it, make_pwrite},
        {"close", open_it, make_close},
        {"dup2", open_it, make_dup2},
        {"linger", connect_it, make_close},
        {"mkdir", be_supervised, make_mkdir},
        {"mkdir_beside", be_supervised_beside, make_mkdir},
    };

    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    path = argc > 2 ? argv[2] : "";
    for (size_t i = 0; argc > 1 && i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(argv[1], calls[i].name) != 0)
            continue;
        if (calls[i].prepare)
            calls[i].prepare();
        puts("ready");
        long result = calls[i].make();
        printf("%ld %s\n", result, result < 0 ? strerrorname_np(errno) : "0");
    }
    for (;;)
        pause();
}
