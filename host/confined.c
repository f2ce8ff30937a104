#include "host/confined.h"
#include "base/interruptions.h"
#include "base/util.h"

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
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    FILES_MAX = 64,
    LOOK_MS = 20,
    IDLE_LOOKS = 250,
    CPU_SECONDS = 600, /* a last resort: the tool ends it earlier */
    EXIT_MEMORY = 1,   /* libdw ends a process that is out of memory so (libdw_alloc.c) */
};

/* ---- system calls ---- */

enum rule {
    RULE_ANY,
    RULE_CHANNEL, /* only into the channel */
    RULE_OUT,     /* only into the file that it may write */
    RULE_EMPTY,   /* only of an open file (AT_EMPTY_PATH) */
    RULE_NO_CODE, /* no memory that can be executed */
};

/* What computing needs, with the files that are there. All else fails with EPERM. */
static const struct {
    int nr;
    enum rule rule;
} allowed[] = {
    {SYS_read, RULE_ANY},           {SYS_pread64, RULE_ANY},      {SYS_recvmsg, RULE_ANY},
    {SYS_sendto, RULE_CHANNEL},     {SYS_pwrite64, RULE_OUT},     {SYS_close, RULE_ANY},
    {SYS_lseek, RULE_ANY},          {SYS_newfstatat, RULE_EMPTY}, {SYS_fstat, RULE_ANY},
    {SYS_mmap, RULE_NO_CODE},       {SYS_mprotect, RULE_NO_CODE}, {SYS_munmap, RULE_ANY},
    {SYS_mremap, RULE_ANY},         {SYS_madvise, RULE_ANY},      {SYS_brk, RULE_ANY},
    {SYS_futex, RULE_ANY},          {SYS_getrandom, RULE_ANY},    {SYS_clock_gettime, RULE_ANY},
    {SYS_rt_sigprocmask, RULE_ANY}, {SYS_rt_sigreturn, RULE_ANY}, {SYS_restart_syscall, RULE_ANY},
    {SYS_sched_yield, RULE_ANY},    {SYS_getrusage, RULE_ANY},    {SYS_exit, RULE_ANY},
    {SYS_exit_group, RULE_ANY},
};

enum { RULE_LENGTH = 5, PROGRAM_MAX = 5 + RULE_LENGTH * (int)ARRAY_LEN(allowed) };

#define LOAD(at)       (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(at))
#define RETURN(action) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, action)
/* Of the next instructions, leaves out `then` if the test is true, else `otherwise`. */
#define SKIP(test, value, then, otherwise)                                                         \
    (struct sock_filter) BPF_JUMP(BPF_JMP | (test) | BPF_K, (uint32_t)(value), then, otherwise)

/* Arguments are 64 bits; these fit in the low half, which comes first (little endian). */
static size_t argument(unsigned index)
{
    return offsetof(struct seccomp_data, args) + index * sizeof(uint64_t);
}

static size_t add_call_rule(struct sock_filter *at, int nr, enum rule rule)
{
    static const struct {
        unsigned argument;
        unsigned short test;
        uint32_t value;
        bool refuses; /* if the test is true; else if it is false */
    } tests[] = {
        [RULE_CHANNEL] = {0, BPF_JEQ, CONFINED_CHANNEL, false},
        [RULE_OUT] = {0, BPF_JEQ, CONFINED_OUT, false},
        [RULE_EMPTY] = {3, BPF_JSET, AT_EMPTY_PATH, false},
        [RULE_NO_CODE] = {2, BPF_JSET, PROT_EXEC, true},
    };
    const struct sock_filter allow = RETURN(SECCOMP_RET_ALLOW);

    if (rule == RULE_ANY) {
        at[0] = SKIP(BPF_JEQ, nr, 0, 1);
        at[1] = allow;
        return 2;
    }
    const bool refuses = tests[rule].refuses;
    at[0] = SKIP(BPF_JEQ, nr, 0, 4);
    at[1] = LOAD(argument(tests[rule].argument));
    at[2] = SKIP(tests[rule].test, tests[rule].value, !refuses, refuses);
    at[3] = RETURN(SECCOMP_RET_ERRNO | EPERM);
    at[4] = allow;
    return RULE_LENGTH;
}

static bool filter_calls(void)
{
    struct sock_filter list[PROGRAM_MAX];
    size_t count = 0;

    list[count++] = LOAD(offsetof(struct seccomp_data, arch));
    list[count++] = SKIP(BPF_JEQ, JEATTACH_AUDIT_ARCH, 1, 0);
    list[count++] = RETURN(SECCOMP_RET_KILL_PROCESS);
    list[count++] = LOAD(offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
        count += add_call_rule(&list[count], allowed[i].nr, allowed[i].rule);
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

static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    (void)syscall(SYS_capset, &header, none);
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
    uint64_t resident; /* bytes, those of files included */
    uint64_t data;     /* bytes of private writable memory, as RLIMIT_DATA counts it */
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
    *out = (struct memory_use){resident * page, data * page};
    return true;
}

static void limit_resources(const struct confined_work *work)
{
    struct memory_use own;

    if (read_memory_use(getpid(), &own))
        limit(RLIMIT_DATA, own.data + work->memory);
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
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGPIPE, SIGXFSZ};
    static const int unhandled[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGCHLD};
    sigset_t none;

    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        signal(ignored[i], SIG_IGN);
    for (size_t i = 0; i < ARRAY_LEN(unhandled); i++)
        signal(unhandled[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Before Linux 5.9 one by one. */
static void close_from(int first)
{
    if (syscall(SYS_close_range, first, ~0u, 0) == 0)
        return;
    for (int fd = first; fd < (int)sysconf(_SC_OPEN_MAX); fd++)
        close(fd);
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
    close_from(out < 0 ? CONFINED_CHANNEL + 1 : CONFINED_OUT + 1);
    return true;
}

static _Noreturn void run_child(int channel, const struct confined_work *work, pid_t tool)
{
    reset_signals();
    if (work->prepare)
        work->prepare(work->ctx);
    if (!keep_files(channel, work->out) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _exit(EXIT_MEMORY);
    limit_resources(work);
    prctl(PR_SET_DUMPABLE, 0);
    lock_land();
    drop_capabilities();
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
        if (confined_cpu_ns(child) > cpu_max || (ready == 0 && confined_idles(child)))
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

enum confined_end confined_stop(struct confined *child)
{
    int status = 0;

    if (child->pid <= 0)
        return CONFINED_DONE;
    util_close(&child->channel);
    kill(child->pid, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0)
        if (errno != EINTR)
            break;
    child->pid = 0;
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGKILL ? CONFINED_KILLED : CONFINED_CRASHED;
    return WEXITSTATUS(status) ? CONFINED_MEMORY : CONFINED_DONE;
}

bool confined_idles(struct confined *child)
{
    const uint64_t used = confined_cpu_ns(child);

    child->idle = used == child->used_ns ? child->idle + 1 : 0;
    child->used_ns = used;
    return child->idle >= IDLE_LOOKS;
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
