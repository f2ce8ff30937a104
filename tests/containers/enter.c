/*
 * Runs a program as the process of a container, or of a sidecar.
 *
 *   enter [OPTION]... PROGRAM [ARGUMENT]...
 *
 *   --join-pid PID    in the pid namespace of that process
 *   --join-user PID   in its user namespace
 *   --new-pid         in a pid namespace of its own, as its first process
 *   --new-ipc         in network, IPC and UTS namespaces of its own
 *   --root DIRECTORY  with that root, in a mount namespace of its own, with /proc
 *   --chroot          the root by chroot(2) in place of pivot_root(2)
 *   --bare            by chroot(2) alone: no mount namespace, no /proc
 *   --read-only       the root is read-only
 *   --tmpfs PATH      a file system in memory there, 16 MiB, open to all
 *   --uid-map FIRST   in a user namespace of its own, whose ids 0 to 65535 are FIRST and up
 *   --uid UID         and gid, as that namespace has them
 *   --caps MASK       these capabilities at most (hexadecimal), also as a user other than root
 *   --no-new-privs
 *   --filter NAME     a seccomp filter: `engine` is like the default of container engines,
 *                     `untraced` and `unknown` forbid ptrace(2) and process_vm_readv(2), with
 *                     EPERM and with ENOSYS
 *
 * Ends with its parent, and the program ends with it. The exit code is that of the program; 77,
 * with a reason on stderr, if this machine refuses a step.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNSUPPORTED = 77, USAGE = 2, MAPPED_IDS = 65536, CAPS = 64, TMPFS_MAX = 4 };

struct options {
    const char *join_pid, *join_user, *root, *filter;
    const char *tmpfs[TMPFS_MAX];
    unsigned tmpfs_count;
    bool new_pid, new_ipc, chroot, bare, read_only, no_new_privs, has_caps;
    long uid_map; /* -1: none */
    unsigned uid;
    uint64_t caps;
};

static __attribute__((noreturn)) void refuse(const char *step)
{
    fprintf(stderr, "enter: %s: %s\n", step, strerror(errno));
    _exit(UNSUPPORTED);
}

static void must(bool done, const char *step)
{
    if (!done)
        refuse(step);
}

/* ---- namespaces ---- */

static int open_namespace(const char *pid, const char *which)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%s/ns/%s", pid, which);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fd >= 0, path);
    return fd;
}

static void join(int namespace, int type)
{
    must(setns(namespace, type) == 0, "setns");
    close(namespace);
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
    close(fd);
}

/* The map of more than one id must be written by a process of the outer user namespace. */
static void write_maps(pid_t pid, long first)
{
    char path[64], map[64];

    snprintf(map, sizeof map, "0 %ld %d\n", first, MAPPED_IDS);
    snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
    write_text(path, map);
    snprintf(path, sizeof path, "/proc/%d/gid_map", (int)pid);
    write_text(path, map);
}

/* In the child; `ready` and `done` are the ends of pipes. */
static void enter_own_user_namespace(int ready, int done)
{
    char byte = 1;

    must(unshare(CLONE_NEWUSER) == 0, "unshare(CLONE_NEWUSER)");
    must(write(ready, &byte, 1) == 1 && read(done, &byte, 1) == 1, "map user ids");
}

/* ---- file systems ---- */

static void mount_tmpfs(const struct options *options)
{
    char path[4096];

    for (unsigned i = 0; i < options->tmpfs_count; i++) {
        snprintf(path, sizeof path, "%s/%s", options->root, options->tmpfs[i]);
        must(mount("none", path, "tmpfs", 0, "size=16m,mode=1777") == 0, "mount a tmpfs");
    }
}

static void mount_root(const struct options *options)
{
    char proc[4096];
    const unsigned long again = MS_REMOUNT | MS_BIND | MS_RDONLY;

    must(unshare(CLONE_NEWNS) == 0, "unshare(CLONE_NEWNS)");
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "make mounts private");
    must(mount(options->root, options->root, NULL, MS_BIND, NULL) == 0, "bind the root");
    snprintf(proc, sizeof proc, "%s/proc", options->root);
    must(mount("proc", proc, "proc", 0, NULL) == 0, "mount /proc");
    mount_tmpfs(options);
    must(!options->read_only || mount(NULL, options->root, NULL, again, NULL) == 0,
         "make the root read-only");
}

static void change_root(const struct options *options)
{
    if (!options->bare)
        mount_root(options);
    must(chdir(options->root) == 0, options->root);
    if (options->chroot || options->bare)
        must(chroot(".") == 0, "chroot");
    else
        must(syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0, "pivot_root");
    must(chdir("/") == 0, "chdir");
}

/* ---- permissions ---- */

/* Before the user changes: afterwards the permission is gone. */
static void bound_capabilities(uint64_t caps)
{
    for (int cap = 0; cap < CAPS; cap++)
        if (!(caps >> cap & 1) && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            must(prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0, "drop capabilities");
    must(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0, "keep capabilities");
}

static uint64_t permitted(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];

    must(syscall(SYS_capget, &header, data) == 0, "capget");
    return data[0].permitted | (uint64_t)data[1].permitted << 32;
}

/* A user other than root keeps ambient capabilities across exec. */
static void set_capabilities(uint64_t caps)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    const uint32_t low = (uint32_t)caps, high = (uint32_t)(caps >> 32);
    struct __user_cap_data_struct data[2] = {{low, low, low}, {high, high, high}};

    must(syscall(SYS_capset, &header, data) == 0, "capset");
    for (int cap = 0; cap < CAPS; cap++)
        if (caps >> cap & 1)
            must(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) == 0, "keep capabilities");
}

static void become_user(const struct options *options)
{
    if (options->has_caps)
        bound_capabilities(options->caps);
    must(setgroups(0, NULL) == 0, "setgroups");
    must(setresgid(options->uid, options->uid, options->uid) == 0, "setresgid");
    must(setresuid(options->uid, options->uid, options->uid) == 0, "setresuid");
    if (options->has_caps)
        set_capabilities(options->caps & permitted());
}

#define LOAD_NUMBER      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define REFUSE(nr, code) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), RETURN(code)
#define RETURN(code)     BPF_STMT(BPF_RET | BPF_K, (code))
#define FAIL(err)        (SECCOMP_RET_ERRNO | (err))

static void install(struct sock_filter *code, size_t count)
{
    struct sock_fprog program = {(unsigned short)count, code};

    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "install a seccomp filter");
}

/* The default profile of container engines, for containers without the capabilities. */
static void forbid_as_engines(void)
{
    struct sock_filter code[] = {
        LOAD_NUMBER,
        REFUSE(SYS_mount, FAIL(EPERM)),
        REFUSE(SYS_umount2, FAIL(EPERM)),
        REFUSE(SYS_pivot_root, FAIL(EPERM)),
        REFUSE(SYS_unshare, FAIL(EPERM)),
        REFUSE(SYS_setns, FAIL(EPERM)),
        REFUSE(SYS_bpf, FAIL(EPERM)),
        REFUSE(SYS_perf_event_open, FAIL(EPERM)),
        REFUSE(SYS_keyctl, FAIL(EPERM)),
        REFUSE(SYS_add_key, FAIL(EPERM)),
        REFUSE(SYS_reboot, FAIL(EPERM)),
        REFUSE(SYS_userfaultfd, FAIL(EPERM)),
        REFUSE(SYS_open_by_handle_at, FAIL(EPERM)),
        RETURN(SECCOMP_RET_ALLOW),
    };

    install(code, sizeof code / sizeof *code);
}

static void forbid_tracing(unsigned err)
{
    struct sock_filter code[] = {
        LOAD_NUMBER,
        REFUSE(SYS_ptrace, FAIL(err)),
        REFUSE(SYS_process_vm_readv, FAIL(err)),
        REFUSE(SYS_process_vm_writev, FAIL(err)),
        REFUSE(SYS_pidfd_getfd, FAIL(err)),
        RETURN(SECCOMP_RET_ALLOW),
    };

    install(code, sizeof code / sizeof *code);
}

static void restrict_calls(const struct options *options)
{
    if (options->no_new_privs || options->filter)
        must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    if (!options->filter)
        return;
    if (strcmp(options->filter, "engine") == 0)
        forbid_as_engines();
    else
        forbid_tracing(strcmp(options->filter, "unknown") == 0 ? ENOSYS : EPERM);
}

/* ---- the order of the steps ---- */

static __attribute__((noreturn)) void run(const struct options *options, char **argv)
{
    become_user(options);
    restrict_calls(options);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv(argv[0], argv);
    refuse(argv[0]);
}

static __attribute__((noreturn)) void child(const struct options *options, char **argv,
                                            int user_namespace, const int to_child[2],
                                            const int to_parent[2])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(to_child[1]);
    close(to_parent[0]);
    if (options->new_ipc)
        must(unshare(CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET) == 0, "unshare");
    if (options->root)
        change_root(options);
    if (user_namespace >= 0)
        join(user_namespace, CLONE_NEWUSER);
    if (options->uid_map >= 0)
        enter_own_user_namespace(to_parent[1], to_child[0]);
    close(to_child[0]);
    close(to_parent[1]);
    run(options, argv);
}

static int wait_for(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        must(errno == EINTR, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int start(const struct options *options, char **argv)
{
    int to_child[2], to_parent[2];
    int user_namespace = options->join_user ? open_namespace(options->join_user, "user") : -1;
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (options->join_pid)
        join(open_namespace(options->join_pid, "pid"), CLONE_NEWPID);
    if (options->new_pid)
        must(unshare(CLONE_NEWPID) == 0, "unshare(CLONE_NEWPID)");
    must(pipe2(to_child, O_CLOEXEC) == 0 && pipe2(to_parent, O_CLOEXEC) == 0, "pipe");
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0)
        child(options, argv, user_namespace, to_child, to_parent);
    close(to_parent[1]);
    if (options->uid_map >= 0 && read(to_parent[0], &byte, 1) == 1) {
        write_maps(pid, options->uid_map);
        must(write(to_child[1], &byte, 1) == 1, "map user ids");
    }
    return wait_for(pid);
}

static void usage(void)
{
    fputs("usage: enter [OPTION]... PROGRAM [ARGUMENT]...\n", stderr);
    exit(USAGE);
}

enum { ROOT = 256, JOIN_PID, JOIN_USER, NEW_PID, NEW_IPC, CHROOT, BARE, READ_ONLY, TMPFS, UID_MAP };
enum { UID = 512, CAPABILITIES, NO_NEW_PRIVS, FILTER };

static const struct option known[] = {
    {"root", required_argument, NULL, ROOT},
    {"join-pid", required_argument, NULL, JOIN_PID},
    {"join-user", required_argument, NULL, JOIN_USER},
    {"new-pid", no_argument, NULL, NEW_PID},
    {"new-ipc", no_argument, NULL, NEW_IPC},
    {"chroot", no_argument, NULL, CHROOT},
    {"bare", no_argument, NULL, BARE},
    {"read-only", no_argument, NULL, READ_ONLY},
    {"tmpfs", required_argument, NULL, TMPFS},
    {"uid-map", required_argument, NULL, UID_MAP},
    {"uid", required_argument, NULL, UID},
    {"caps", required_argument, NULL, CAPABILITIES},
    {"no-new-privs", no_argument, NULL, NO_NEW_PRIVS},
    {"filter", required_argument, NULL, FILTER},
    {NULL, 0, NULL, 0},
};

static bool take_flag(struct options *options, int option)
{
    switch (option) {
    case NEW_PID:
        return options->new_pid = true;
    case NEW_IPC:
        return options->new_ipc = true;
    case CHROOT:
        return options->chroot = true;
    case BARE:
        return options->bare = true;
    case READ_ONLY:
        return options->read_only = true;
    case NO_NEW_PRIVS:
        return options->no_new_privs = true;
    default:
        return false;
    }
}

static void take_value(struct options *options, int option, const char *value)
{
    switch (option) {
    case ROOT:
        options->root = value;
        break;
    case JOIN_PID:
        options->join_pid = value;
        break;
    case JOIN_USER:
        options->join_user = value;
        break;
    case TMPFS:
        if (options->tmpfs_count < TMPFS_MAX)
            options->tmpfs[options->tmpfs_count++] = value;
        break;
    case UID_MAP:
        options->uid_map = strtol(value, NULL, 10);
        break;
    case UID:
        options->uid = (unsigned)strtoul(value, NULL, 10);
        break;
    case CAPABILITIES:
        options->has_caps = true;
        options->caps = strtoull(value, NULL, 16);
        break;
    case FILTER:
        options->filter = value;
        break;
    default:
        usage();
    }
}

int main(int argc, char **argv)
{
    struct options options = {.uid_map = -1};
    int option;

    while ((option = getopt_long(argc, argv, "+", known, NULL)) != -1)
        if (!take_flag(&options, option))
            take_value(&options, option, optarg);
    if (optind == argc)
        usage();
    return start(&options, argv + optind);
}
