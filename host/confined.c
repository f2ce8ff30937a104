#include "host/confined.h"
#include "base/interruptions.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define FILES_BYTES (128ull << 30) /* of mapped files; the tables of their pages need 256 MiB */
#define IDLE_NS     5000000000ull

enum {
    FILES_MAX = 64,
    STACK_BYTES = 8 << 20,
    LOOK_MS = 20,
    CPU_SECONDS = 600, /* a last resort: the tool ends it earlier */
    REAP_MS = 500,
    EXIT_MEMORY = 1,  /* libdw ends a process that is out of memory so (libdw_alloc.c) */
    EXIT_REFUSED = 2, /* it could not be confined */
};

/* ---- system calls ---- */

/* What computing needs, with the files that are there. All else fails with EPERM. */
static const int allowed[] = {
    SYS_read,     SYS_pread64, SYS_lseek,     SYS_close,     SYS_recvmsg,    SYS_sendto,
    SYS_pwrite64, SYS_mmap,    SYS_munmap,    SYS_mremap,    SYS_madvise,    SYS_mprotect,
    SYS_brk,      SYS_futex,   SYS_getrandom, SYS_getrusage, SYS_exit_group,
};

/*
 * The bits of an argument that are looked at, and what they must be. An address that has no length
 * is none (__sys_sendto). Memory that is shared, or grows down, is not counted by RLIMIT_DATA; huge
 * pages are the system's own.
 */
static const struct {
    int nr;
    unsigned argument;
    uint32_t bits, value;
} conditions[] = {
    {SYS_sendto, 0, UINT32_MAX, CONFINED_CHANNEL},
    {SYS_sendto, 3, UINT32_MAX, MSG_NOSIGNAL},
    {SYS_sendto, 5, UINT32_MAX, 0},
    {SYS_pwrite64, 0, UINT32_MAX, CONFINED_OUT},
    {SYS_mmap, 2, PROT_EXEC, 0},
    {SYS_mmap, 3, MAP_SHARED | MAP_GROWSDOWN | MAP_HUGETLB, 0},
    {SYS_mprotect, 2, PROT_EXEC, 0},
};

enum {
    CONDITION_LENGTH = 6,
    PROGRAM_MAX = 6 + CONDITION_LENGTH * (int)ARRAY_LEN(conditions) + 2 * (int)ARRAY_LEN(allowed),
};

#define LOAD(at)       (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(at))
#define RETURN(action) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, action)
#define KEEP(bits)     (struct sock_filter) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits)
/* Of the next instructions, leaves out `then` if the value is equal, else `otherwise`. */
#define SKIP(value, then, otherwise)                                                               \
    (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), then, otherwise)

/* Arguments are 64 bits; those that are looked at fit in the low half, which comes first. */
static size_t argument(unsigned index)
{
    return offsetof(struct seccomp_data, args) + index * sizeof(uint64_t);
}

static bool filter_calls(void)
{
    struct sock_filter list[PROGRAM_MAX];
    size_t count = 0;

    list[count++] = LOAD(offsetof(struct seccomp_data, arch));
    list[count++] = SKIP(JEATTACH_AUDIT_ARCH, 1, 0);
    list[count++] = RETURN(SECCOMP_RET_KILL_PROCESS);
    for (size_t i = 0; i < ARRAY_LEN(conditions); i++) {
        list[count++] = LOAD(offsetof(struct seccomp_data, nr));
        list[count++] = SKIP(conditions[i].nr, 0, 4);
        list[count++] = LOAD(argument(conditions[i].argument));
        list[count++] = KEEP(conditions[i].bits);
        list[count++] = SKIP(conditions[i].value, 1, 0);
        list[count++] = RETURN(SECCOMP_RET_ERRNO | EPERM);
    }
    list[count++] = LOAD(offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
        list[count++] = SKIP(allowed[i], 0, 1);
        list[count++] = RETURN(SECCOMP_RET_ALLOW);
    }
    list[count++] = RETURN(SECCOMP_RET_ERRNO | EPERM);

    const struct sock_fprog program = {.len = (unsigned short)count, .filter = list};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* ---- files, network, signals: Landlock ---- */

/* <linux/landlock.h> is younger than some systems that the tool is built on. */
enum {
    SYS_CREATE_RULESET = 444,
    SYS_RESTRICT_SELF = 446,
    LANDLOCK_VERSION = 1, /* LANDLOCK_CREATE_RULESET_VERSION */
};

/* struct landlock_ruleset_attr: its first 8, 16 or 24 bytes, by version. */
struct ruleset {
    uint64_t files, network, scoped;
};

/* A ruleset without rules refuses all that it names. */
static bool lock_land(void)
{
    static const uint64_t files[] = {0, 0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff};
    long version = syscall(SYS_CREATE_RULESET, NULL, 0, LANDLOCK_VERSION);

    if (version < 1)
        return false;
    const struct ruleset ruleset = {
        .files = files[version < (long)ARRAY_LEN(files) ? version : (long)ARRAY_LEN(files) - 1],
        .network = 3,
        .scoped = 3,
    };
    size_t size = version < 4 ? 8 : version < 6 ? 16 : 24;
    AUTO_CLOSE int fd = (int)syscall(SYS_CREATE_RULESET, &ruleset, size, 0);
    return fd >= 0 && syscall(SYS_RESTRICT_SELF, fd, 0) == 0;
}

/* ---- rights and limits ---- */

/*
 * Files and processes of root are root's also without capabilities. The first id has no user
 * (systemd's UIDS-GIDS.md); 65534 is there for a user namespace that does not know it. The tool
 * must be able to kill the child, and a process needs CAP_KILL for one of another user.
 */
static void become_nobody(const struct __user_cap_data_struct *has)
{
    static const unsigned ids[] = {0xfffffff0, 65534};
    const uint32_t needs = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;

    if ((has->effective & needs) != needs)
        return;
    (void)syscall(SYS_setgroups, 0, NULL);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        if (syscall(SYS_setresgid, ids[i], ids[i], ids[i]) == 0 &&
            syscall(SYS_setresuid, ids[i], ids[i], ids[i]) == 0)
            return;
}

static void drop_rights(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct capabilities[_LINUX_CAPABILITY_U32S_3] = {{0}};

    if (syscall(SYS_capget, &header, capabilities) == 0)
        become_nobody(&capabilities[0]);
    memset(capabilities, 0, sizeof capabilities);
    (void)syscall(SYS_capset, &header, capabilities);
}

static void limit(int what, uint64_t value)
{
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)what, &now))
        return;
    if (now.rlim_max > value)
        now.rlim_max = value;
    if (now.rlim_cur > now.rlim_max)
        now.rlim_cur = now.rlim_max;
    (void)setrlimit((__rlimit_resource_t)what, &now);
}

struct memory_use {
    uint64_t size;     /* bytes of address space */
    uint64_t resident; /* those of files included */
    uint64_t data;     /* private writable memory, as RLIMIT_DATA counts it */
};

/* Reads /proc/PID/statm: size resident shared text lib data dt, in pages. */
static bool read_memory_use(pid_t pid, struct memory_use *out)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned long long size, resident, shared, text, library, data;
    char path[48], line[128];
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (n <= 0)
        return false;
    line[n] = '\0';
    if (sscanf(line, "%llu %llu %llu %llu %llu %llu", &size, &resident, &shared, &text, &library,
               &data) != 6)
        return false;
    *out = (struct memory_use){size * page, resident * page, data * page};
    return true;
}

static void limit_resources(const struct confined_work *work)
{
    struct memory_use own;

    if (read_memory_use(getpid(), &own)) {
        limit(RLIMIT_DATA, own.data + work->memory);
        limit(RLIMIT_AS, own.size + work->memory + FILES_BYTES);
    }
    limit(RLIMIT_STACK, STACK_BYTES);
    limit(RLIMIT_CPU, CPU_SECONDS);
    limit(RLIMIT_FSIZE, work->out < 0 ? 0 : work->out_max);
    limit(RLIMIT_NOFILE, FILES_MAX);
    limit(RLIMIT_NPROC, 0);
    limit(RLIMIT_MEMLOCK, 0);
    limit(RLIMIT_MSGQUEUE, 0);
    limit(RLIMIT_CORE, 0);
}

/* The tool decides what a signal of the terminal means, and ends the child itself. What ends a
 * process ends this one: no handler of the tool runs in it. */
static void reset_signals(void)
{
    static const int ignored[] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGALRM, SIGPIPE, SIGXFSZ};
    static const int unhandled[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGCHLD, SIGXCPU};
    sigset_t none;

    interruptions_handle(SIG_IGN);
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        signal(ignored[i], SIG_IGN);
    for (size_t i = 0; i < ARRAY_LEN(unhandled); i++)
        signal(unhandled[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Before Linux 5.9 one by one; there may be a billion of them (RLIMIT_NOFILE). */
static bool close_from(int first)
{
    const struct dirent *entry;
    DIR *list;

    if (syscall(SYS_close_range, first, ~0u, 0) == 0)
        return true;
    list = opendir("/proc/self/fd");
    while (list && (entry = readdir(list))) {
        const int fd = atoi(entry->d_name);
        if (fd >= first && fd != dirfd(list))
            close(fd);
    }
    return list && closedir(list) == 0;
}

/* Leaves only the channel and the file to write, and /dev/null where a library may print. */
static bool keep_files(int channel, int out)
{
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    /* Out of the way of the numbers that they are to have. */
    int high = fcntl(channel, F_DUPFD_CLOEXEC, CONFINED_OUT + 1);
    int high_out = out < 0 ? high : fcntl(out, F_DUPFD_CLOEXEC, CONFINED_OUT + 1);

    for (int fd = 0; fd < CONFINED_CHANNEL; fd++)
        if (dup2(null < 0 ? channel : null, fd) < 0)
            return false;
    null = -1;
    if (high < 0 || high_out < 0 || dup2(high, CONFINED_CHANNEL) < 0 ||
        (out >= 0 && dup2(high_out, CONFINED_OUT) < 0))
        return false;
    return close_from(out < 0 ? CONFINED_CHANNEL + 1 : CONFINED_OUT + 1);
}

static _Noreturn void run_child(int channel, const struct confined_work *work, pid_t tool)
{
    reset_signals();
    if (work->prepare)
        work->prepare(work->ctx);
    /* The environment may contain passwords, and the child has a copy of all memory of the tool. */
    for (char **variable = environ; variable && *variable; variable++)
        explicit_bzero(*variable, strlen(*variable));
    if (!keep_files(channel, work->out) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _exit(EXIT_REFUSED);
    limit_resources(work);
    lock_land();
    drop_rights();
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of credentials clears it */
    if (getppid() != tool)
        _exit(0);
    filter_calls();
    work->serve(work->ctx);
    /* Before _exit(3) AddressSanitizer makes calls that are refused. */
    for (;;)
        syscall(SYS_exit_group, 0);
}

/* ---- the tool's side ---- */

int confined_start(struct confined *child, const struct confined_work *work)
{
    pid_t tool = getpid();
    int ends[2];

    *child = (struct confined){.channel = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return -errno;
    child->pid = fork();
    if (child->pid == 0)
        run_child(ends[1], work, tool);
    close(ends[1]);
    child->channel = ends[0];
    if (child->pid > 0)
        return 0;
    int rc = -errno;
    util_close(&child->channel);
    child->pid = 0;
    return rc;
}

int confined_receive(struct confined *child, void *answer, size_t len, uint64_t cpu_max)
{
    struct pollfd channel = {.fd = child->channel, .events = POLLIN};
    const sig_atomic_t begun = interruptions();

    for (size_t done = 0; done < len;) {
        const int ready = poll(&channel, 1, LOOK_MS);
        if (interruptions_ended(begun))
            return -EINTR;
        if (confined_cpu_ns(child) > cpu_max || (ready == 0 && confined_idles(child) >= IDLE_NS))
            return -ETIME;
        if (ready <= 0)
            continue;
        const ssize_t n = recv(child->channel, (char *)answer + done, len - done, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            return -EBADMSG;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/*
 * Waits for the end of a child that was killed. Returns its status; 0: it sleeps in a way that not
 * even SIGKILL ends (FUSE), and ends when it can.
 */
static int reap(pid_t pid)
{
    const uint64_t until = clock_now() + REAP_MS * 1000000ull;
    struct timespec pause = {0, 20000};
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0 && clock_now() < until) {
        nanosleep(&pause, NULL);
        pause.tv_nsec += pause.tv_nsec / 2;
    }
    return status;
}

enum confined_end confined_stop(struct confined *child)
{
    if (child->pid <= 0)
        return CONFINED_DONE;
    util_close(&child->channel);
    kill(child->pid, SIGKILL);
    const int status = reap(child->pid);
    child->pid = 0;
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGKILL ? CONFINED_KILLED : CONFINED_CRASHED;
    if (WEXITSTATUS(status) == EXIT_REFUSED)
        return CONFINED_REFUSED;
    return WEXITSTATUS(status) ? CONFINED_MEMORY : CONFINED_DONE;
}

uint64_t confined_idles(struct confined *child)
{
    const uint64_t used = confined_cpu_ns(child);
    const uint64_t idle = used == child->used_ns ? LOOK_MS * 1000000u : 0;

    child->idle_ns = idle ? child->idle_ns + idle : 0;
    child->slept_ns += idle;
    child->used_ns = used;
    return child->idle_ns;
}

uint64_t confined_cpu_ns(const struct confined *child)
{
    struct timespec used;
    clockid_t clock;

    if (child->pid <= 0 || clock_getcpuclockid(child->pid, &clock) || clock_gettime(clock, &used))
        return 0;
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

uint64_t confined_resident(const struct confined *child)
{
    struct memory_use use = {0};

    return child->pid > 0 && read_memory_use(child->pid, &use) ? use.resident : 0;
}
