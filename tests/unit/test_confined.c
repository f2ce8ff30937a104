/* What a confined child may not do, and how its end is seen. */
#include "base/util.h"
#include "check.h"
#include "host/confined.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { MEMORY = 32 << 20, LANDLOCK_CREATE_RULESET = 444 };

static const char variable[] = "CONFINED_SECRET";

static char scratch[] = "/tmp/confined.XXXXXX"; /* everybody may write it */
static char secret[] = "/tmp/confined.XXXXXX";  /* only its owner may read it */
static int inherited;                           /* a file that is not closed at exec */
static struct sockaddr_in listener;
static pid_t other; /* a process of the same user: the one that starts the child */

/* ---- attempts ---- */

static int failed(long rc)
{
    return rc < 0 ? errno : 0;
}

static int try_read_file(void)
{
    return failed(open("/etc/passwd", O_RDONLY));
}

static int try_read_secret(void)
{
    return failed(open(secret, O_RDONLY));
}

static int try_write_file(void)
{
    return failed(open(scratch, O_WRONLY));
}

static int try_make_file(void)
{
    return failed(open("/tmp", O_TMPFILE | O_RDWR, 0600));
}

static int try_remove_file(void)
{
    return failed(unlink(scratch));
}

static int try_read_inherited(void)
{
    char byte;

    return failed(pread(inherited, &byte, 1, 0));
}

/* They are /dev/null. */
static int try_read_streams(void)
{
    char byte;

    for (int fd = 0; fd < CONFINED_CHANNEL; fd++)
        if (read(fd, &byte, 1) != 0)
            return 0;
    return EPERM;
}

static int try_read_environment(void)
{
    return getenv(variable) ? 0 : EPERM;
}

/* AT_EMPTY_PATH says only that the path may be empty. */
static int try_stat(void)
{
    struct stat st;

    return failed(syscall(SYS_newfstatat, AT_FDCWD, scratch, &st, AT_EMPTY_PATH));
}

static int try_write_elsewhere(void)
{
    return failed(write(STDERR_FILENO, "x", 1));
}

static int try_send_elsewhere(void)
{
    return failed(send(STDERR_FILENO, "x", 1, 0));
}

static int try_send_otherwise(void)
{
    return failed(send(CONFINED_CHANNEL, "x", 1, MSG_NOSIGNAL | MSG_OOB));
}

static int try_send_to_address(void)
{
    return failed(sendto(CONFINED_CHANNEL, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&listener,
                         sizeof listener));
}

static int try_write_at(void)
{
    return failed(pwrite(STDERR_FILENO, "x", 1, 0));
}

static int try_memory_file(void)
{
    return failed(memfd_create("x", 0));
}

static int try_connect(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return fd < 0 ? errno : failed(connect(fd, (struct sockaddr *)&listener, sizeof listener));
}

static int try_exec(void)
{
    char *const arguments[] = {(char *)(uintptr_t) "true", NULL};

    return failed(execv("/bin/true", arguments));
}

static int try_fork(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    return failed(pid);
}

static int try_kill(void)
{
    return failed(kill(other, 0));
}

static int try_trace(void)
{
    return failed(ptrace(PTRACE_SEIZE, other, 0, 0));
}

static int try_read_memory(void)
{
    char byte;
    struct iovec local = {&byte, 1}, remote = {&byte, 1};

    return failed(process_vm_readv(other, &local, 1, &remote, 1, 0));
}

static int try_code(void)
{
    void *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return page == MAP_FAILED ? errno : 0;
}

static int try_change_code(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return page == MAP_FAILED ? 0 : failed(mprotect(page, 4096, PROT_READ | PROT_EXEC));
}

static int grow_by(size_t size, int protection, int flags)
{
    void *bytes = mmap(NULL, size, protection, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return bytes == MAP_FAILED ? errno : 0;
}

static int try_memory(void)
{
    return grow_by(4 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static int try_shared_memory(void)
{
    return grow_by(4 * MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED);
}

static int try_stack_memory(void)
{
    return grow_by(4 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_GROWSDOWN);
}

/* Each 2 MiB of it that is read costs a page, which is in no count of memory but VmPTE. */
static int try_page_tables(void)
{
    return grow_by((size_t)1 << 40, PROT_READ, MAP_PRIVATE);
}

static int try_be_traced(void)
{
    return prctl(PR_GET_DUMPABLE) > 0 ? 0 : EPERM;
}

enum layer {
    LAYER_FILTER = 1,
    LAYER_LANDLOCK = 2, /* Linux 5.13 */
    LAYER_TCP = 4,      /* Landlock of Linux 6.7 */
    LAYER_SIGNALS = 8,  /* Landlock of Linux 6.12 */
    LAYER_RIGHTS = 16,
    LAYER_USER = 32, /* another one than root */
};

static const struct attempt {
    const char *name;
    int (*act)(void);
    unsigned layers; /* that refuse it, each alone */
} attempts[] = {
    {"read a file", try_read_file, LAYER_FILTER | LAYER_LANDLOCK},
    {"read a file of root", try_read_secret, LAYER_FILTER | LAYER_LANDLOCK | LAYER_USER},
    {"write a file", try_write_file, LAYER_FILTER | LAYER_LANDLOCK},
    {"make a file", try_make_file, LAYER_FILTER | LAYER_LANDLOCK},
    {"remove a file", try_remove_file, LAYER_FILTER | LAYER_LANDLOCK | LAYER_USER},
    {"look at a file", try_stat, LAYER_FILTER},
    {"read an inherited file", try_read_inherited, LAYER_RIGHTS},
    {"read the terminal", try_read_streams, LAYER_RIGHTS},
    {"read the environment", try_read_environment, LAYER_RIGHTS},
    {"write elsewhere", try_write_elsewhere, LAYER_FILTER},
    {"send elsewhere", try_send_elsewhere, LAYER_FILTER},
    {"send with flags", try_send_otherwise, LAYER_FILTER},
    {"send to an address", try_send_to_address, LAYER_FILTER},
    {"write elsewhere, at an offset", try_write_at, LAYER_FILTER},
    {"make a memory file", try_memory_file, LAYER_FILTER},
    {"connect", try_connect, LAYER_FILTER | LAYER_TCP},
    {"execute", try_exec, LAYER_FILTER | LAYER_LANDLOCK},
    {"fork", try_fork, LAYER_FILTER | LAYER_RIGHTS},
    {"signal", try_kill, LAYER_FILTER | LAYER_SIGNALS | LAYER_USER},
    {"trace", try_trace, LAYER_FILTER | LAYER_LANDLOCK | LAYER_USER},
    {"read memory", try_read_memory, LAYER_FILTER | LAYER_LANDLOCK | LAYER_USER},
    {"make code", try_code, LAYER_FILTER},
    {"make code of data", try_change_code, LAYER_FILTER},
    {"grow", try_memory, LAYER_RIGHTS},
    {"grow by shared memory", try_shared_memory, LAYER_FILTER},
    {"grow by a stack", try_stack_memory, LAYER_FILTER},
    {"grow by page tables", try_page_tables, LAYER_RIGHTS},
    {"be traced", try_be_traced, LAYER_RIGHTS},
};

/* The filter comes first. */
static bool is_refusal(int err, unsigned by)
{
    if (by & LAYER_FILTER)
        return err == EPERM;
    return err == EPERM || err == EACCES || err == ENOMEM || err == EBADF || err == EAGAIN;
}

static void attempt_all(void *ctx)
{
    int errors[ARRAY_LEN(attempts)];

    for (size_t i = 0; i < ARRAY_LEN(attempts); i++)
        errors[i] = attempts[i].layers & *(const unsigned *)ctx ? attempts[i].act() : 0;
    (void)send(CONFINED_CHANNEL, errors, sizeof errors, MSG_NOSIGNAL);
}

static bool start(struct confined *child, void (*serve)(void *ctx), void *ctx)
{
    const struct confined_work work = {.memory = MEMORY, .out = -1, .serve = serve, .ctx = ctx};

    return confined_start(child, &work) == 0;
}

static void check_attempts(unsigned layers)
{
    int errors[ARRAY_LEN(attempts)];
    struct confined child;

    if (!CHECK(start(&child, attempt_all, &layers)) ||
        !CHECK(recv(child.channel, errors, sizeof errors, 0) == sizeof errors))
        return;
    for (size_t i = 0; i < ARRAY_LEN(attempts); i++)
        if ((attempts[i].layers & layers) &&
            !CHECK(is_refusal(errors[i], attempts[i].layers & layers)))
            fprintf(stderr, "not refused, with layers %#x: %s\n", layers, attempts[i].name);
    confined_stop(&child);
}

/* ---- where a part of the confinement is missing ---- */

static bool refuse_call(int nr, unsigned first_argument, int error)
{
    struct sock_filter list[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first_argument, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = ARRAY_LEN(list), .filter = list};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static unsigned landlock_layers(void)
{
    const long version = syscall(LANDLOCK_CREATE_RULESET, NULL, 0, 1);

    return (version >= 1 ? LAYER_LANDLOCK : 0) | (version >= 4 ? LAYER_TCP : 0) |
           (version >= 6 ? LAYER_SIGNALS : 0);
}

static bool user, without_filter, without_landlock;

static void check_layers(void)
{
    unsigned layers = LAYER_FILTER | LAYER_RIGHTS | landlock_layers();

    other = getpid();
    if (user)
        CHECK(setgid(65534) == 0 && setuid(65534) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
    else if (geteuid() == 0)
        layers |= LAYER_USER;
    if (without_landlock) {
        layers &= ~(unsigned)(LAYER_LANDLOCK | LAYER_TCP | LAYER_SIGNALS);
        CHECK(refuse_call(LANDLOCK_CREATE_RULESET, 0, ENOSYS));
        CHECK(refuse_call(SYS_close_range, CONFINED_CHANNEL + 1, ENOSYS)); /* Linux 5.9 */
    }
    if (without_filter) {
        layers &= ~(unsigned)LAYER_FILTER;
        CHECK(refuse_call(SYS_prctl, PR_SET_SECCOMP, EPERM));
    }
    check_attempts(layers);
}

/* In a process of its own, as nothing of this can be undone. */
static void run_apart(void (*check)(void))
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        check();
        _exit(check_result());
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- its end ---- */

static void return_at_once(void *ctx)
{
    (void)ctx;
}

static void crash(void *ctx)
{
    (void)ctx;
    __builtin_trap();
}

static void hang(void *ctx)
{
    (void)ctx;
    (void)send(CONFINED_CHANNEL, "", 1, MSG_NOSIGNAL);
    for (;;)
        continue;
}

static void grow(void *ctx)
{
    (void)ctx;
    while (malloc(1 << 16))
        continue;
    _exit(1);
}

static enum confined_end end_of(void (*serve)(void *ctx))
{
    struct confined child;
    char byte;

    if (!CHECK(start(&child, serve, NULL)))
        return CONFINED_DONE;
    (void)recv(child.channel, &byte, 1, 0);
    return confined_stop(&child);
}

/* Where it cannot give up new rights it does no work. */
static void check_without_promise(void)
{
    CHECK(refuse_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, EPERM));
    CHECK(end_of(return_at_once) == CONFINED_REFUSED);
}

static void test_ends(void)
{
    CHECK(end_of(return_at_once) == CONFINED_DONE);
    CHECK(end_of(crash) == CONFINED_CRASHED);
    CHECK(end_of(hang) == CONFINED_KILLED);
    CHECK(end_of(grow) == CONFINED_MEMORY);
}

static void test_cpu(void)
{
    struct confined child;
    uint64_t until = clock_now() + 10000000000u;

    if (!CHECK(start(&child, hang, NULL)))
        return;
    while (confined_cpu_ns(&child) < 10000000 && clock_now() < until)
        continue;
    CHECK(confined_cpu_ns(&child) >= 10000000);
    confined_stop(&child);
    CHECK(confined_cpu_ns(&child) == 0 && confined_stop(&child) == CONFINED_DONE);
}

/* Returns the last number behind `name` in /proc/PID/FILE; UINT64_MAX: unlimited. */
static uint64_t proc_number(pid_t pid, const char *file, const char *name, int base)
{
    char path[64], line[256], first[64], second[64];
    uint64_t number = UINT64_MAX;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    FILE *lines = fopen(path, "r");
    while (lines && fgets(line, sizeof line, lines)) {
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        const int found = sscanf(line + strlen(name), "%63s %63s", first, second);
        const char *last = found == 2 ? second : first;
        if (found >= 1 && strcmp(last, "unlimited") != 0)
            number = strtoull(last, NULL, base);
    }
    if (lines)
        fclose(lines);
    return number;
}

static bool start_hang(struct confined *child)
{
    char byte;

    return CHECK(start(child, hang, NULL)) && CHECK(recv(child->channel, &byte, 1, 0) == 1);
}

/* Job control would stop it, and with it a tool that waits for its answer with stops blocked. */
static void test_signals(void)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};
    struct confined child;

    if (!start_hang(&child))
        return;
    const uint64_t mask = proc_number(child.pid, "status", "SigIgn:", 16);
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        CHECK(mask >> (ignored[i] - 1) & 1);
    confined_stop(&child);
}

static void test_limits(void)
{
    static const struct {
        const char *name;
        uint64_t max;
    } limits[] = {
        {"Max open files", 64},      {"Max cpu time", 600},    {"Max core file size", 0},
        {"Max stack size", 8 << 20}, {"Max file size", 0},     {"Max processes", 0},
        {"Max locked memory", 0},    {"Max msgqueue size", 0},
    };
    struct confined child;

    if (!start_hang(&child))
        return;
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        CHECK(proc_number(child.pid, "limits", limits[i].name, 10) <= limits[i].max);
    confined_stop(&child);
}

/* Root that could not kill the process of another user keeps its own, without capabilities. */
static void check_without_kill(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];
    struct confined child;

    if (!CHECK(syscall(SYS_capget, &header, has) == 0))
        return;
    has[0].effective &= ~(1u << CAP_KILL);
    if (CHECK(syscall(SYS_capset, &header, has) == 0) && start_hang(&child)) {
        CHECK(proc_number(child.pid, "status", "CapEff:", 16) == 0);
        CHECK(proc_number(child.pid, "status", "CapPrm:", 16) == 0);
        CHECK(confined_stop(&child) == CONFINED_KILLED);
    }
}

/* It does not see the end of the channel, and nobody stops it. */
static void test_end_of_tool(void)
{
    const uint64_t until = clock_now() + 20000000000u;
    struct confined child;
    int pids[2], status = 0;
    pid_t pid = 0, tool, ended;

    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && pipe(pids) == 0);
    tool = fork();
    if (tool == 0) {
        char byte;
        if (start(&child, hang, NULL) && recv(child.channel, &byte, 1, 0) == 1)
            (void)!write(pids[1], &child.pid, sizeof child.pid);
        pause();
        _exit(0);
    }
    if (!CHECK(read(pids[0], &pid, sizeof pid) == sizeof pid))
        return;
    kill(tool, SIGKILL);
    CHECK(waitpid(tool, &status, 0) == tool);
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && clock_now() < until)
        usleep(1000);
    CHECK(ended == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    kill(pid, SIGKILL);
}

/* As that of a process in a sleep that SIGKILL does not end: its end is the tracer's to see. */
static void test_lasting_end(void)
{
    struct confined child;
    int ready[2];
    pid_t tracer;
    char byte = 0;

    if (geteuid() != 0) /* nobody else may trace it */
        return;
    if (!start_hang(&child) || !CHECK(pipe(ready) == 0))
        return;
    tracer = fork();
    if (tracer == 0) {
        byte = ptrace(PTRACE_SEIZE, child.pid, 0, 0) == 0;
        (void)!write(ready[1], &byte, 1);
        pause();
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1 && byte);
    CHECK(confined_stop(&child) == CONFINED_DONE);
    kill(tracer, SIGKILL);
    CHECK(waitpid(tracer, NULL, 0) == tracer);
}

/* ---- its output ---- */

static void write_out(void *ctx)
{
    const int errors[] = {
        failed(pwrite(CONFINED_OUT, "x", 1, 0)),
        failed(pwrite(CONFINED_OUT, "x", 1, MEMORY)),
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, CONFINED_OUT, 0) == MAP_FAILED,
    };

    (void)ctx;
    (void)send(CONFINED_CHANNEL, errors, sizeof errors, MSG_NOSIGNAL);
}

static void test_out(void)
{
    AUTO_CLOSE int fd = memfd_create("out", MFD_CLOEXEC);
    const struct confined_work work = {
        .memory = MEMORY, .out = fd, .out_max = MEMORY, .serve = write_out};
    struct confined child;
    int errors[3];

    if (!CHECK(fd >= 0 && confined_start(&child, &work) == 0))
        return;
    CHECK(confined_receive(&child, errors, sizeof errors, UINT64_MAX) == 0);
    CHECK(errors[0] == 0 && errors[1] == EFBIG && errors[2]);
    confined_stop(&child);
}

static void make_listener(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof listener;

    listener =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(bind(fd, (struct sockaddr *)&listener, sizeof listener) == 0 && listen(fd, 64) == 0 &&
          getsockname(fd, (struct sockaddr *)&listener, &size) == 0);
}

int main(void)
{
    int fd = mkstemp(scratch), own = mkstemp(secret);

    CHECK(fd >= 0 && own >= 0 && fchmod(fd, 0666) == 0 && setenv(variable, "x", 1) == 0);
    inherited = fcntl(fd, F_DUPFD, 200);
    CHECK(inherited >= 200);
    make_listener();
    for (unsigned without = 0; without < (geteuid() == 0 ? 8 : 4); without++) {
        user = without & 4;
        without_filter = without & 1;
        without_landlock = without & 2;
        run_apart(check_layers);
    }
    run_apart(check_without_promise);
    run_apart(check_without_kill);
    test_ends();
    test_cpu();
    test_signals();
    test_limits();
    test_end_of_tool();
    test_lasting_end();
    test_out();
    unlink(scratch);
    unlink(secret);
    return check_result();
}
