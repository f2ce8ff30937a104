/* What a confined child may not do, and how its end is seen. */
#include "base/util.h"
#include "check.h"
#include "host/confined.h"

#include <errno.h>
#include <fcntl.h>
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

static char scratch[] = "/tmp/confined.XXXXXX";
static pid_t other; /* a process of the same user */

/* ---- attempts ---- */

static int failed(long rc)
{
    return rc < 0 ? errno : 0;
}

static int try_read_file(void)
{
    return failed(open("/etc/passwd", O_RDONLY));
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

static int try_write_elsewhere(void)
{
    return failed(write(STDERR_FILENO, "x", 1));
}

static int try_memory_file(void)
{
    return failed(memfd_create("x", 0));
}

static int try_connect(void)
{
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return fd < 0 ? errno : failed(connect(fd, (struct sockaddr *)&local, sizeof local));
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

static int try_memory(void)
{
    void *bytes =
        mmap(NULL, 4 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return bytes == MAP_FAILED ? errno : 0;
}

static int try_be_traced(void)
{
    return prctl(PR_GET_DUMPABLE) > 0 ? 0 : EPERM;
}

enum layer { LAYER_NONE = 0, LAYER_FILTER = 1, LAYER_LANDLOCK = 2, LAYER_RIGHTS = 4 };

static const struct attempt {
    const char *name;
    int (*act)(void);
    unsigned layers; /* that refuse it, each alone */
} attempts[] = {
    {"read a file", try_read_file, LAYER_FILTER | LAYER_LANDLOCK},
    {"write a file", try_write_file, LAYER_FILTER | LAYER_LANDLOCK},
    {"make a file", try_make_file, LAYER_FILTER | LAYER_LANDLOCK},
    {"remove a file", try_remove_file, LAYER_FILTER | LAYER_LANDLOCK},
    {"write elsewhere", try_write_elsewhere, LAYER_FILTER},
    {"make a memory file", try_memory_file, LAYER_FILTER},
    {"connect", try_connect, LAYER_FILTER},
    {"execute", try_exec, LAYER_FILTER | LAYER_LANDLOCK},
    {"fork", try_fork, LAYER_FILTER},
    {"signal", try_kill, LAYER_FILTER},
    {"trace", try_trace, LAYER_FILTER | LAYER_RIGHTS},
    {"read memory", try_read_memory, LAYER_FILTER | LAYER_RIGHTS},
    {"make code", try_code, LAYER_FILTER},
    {"grow", try_memory, LAYER_RIGHTS},
    {"be traced", try_be_traced, LAYER_RIGHTS},
};

static void attempt_all(void *ctx)
{
    int errors[ARRAY_LEN(attempts)];

    for (size_t i = 0; i < ARRAY_LEN(attempts); i++)
        errors[i] = attempts[i].layers & *(const unsigned *)ctx ? attempts[i].act() : 0;
    (void)send(CONFINED_CHANNEL, errors, sizeof errors, 0);
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
        if ((attempts[i].layers & layers) && !CHECK(errors[i] != 0))
            fprintf(stderr, "not refused: %s\n", attempts[i].name);
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

static bool has_landlock(void)
{
    return syscall(LANDLOCK_CREATE_RULESET, NULL, 0, 1) > 0;
}

/* In a process of its own, as nothing of this can be undone. */
static void check_apart(bool user, bool without_filter, bool without_landlock)
{
    unsigned layers = LAYER_FILTER | LAYER_LANDLOCK | LAYER_RIGHTS;
    pid_t pid = fork();
    int status = 0;

    if (pid) {
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return;
    }
    if (user)
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    if (without_landlock || !has_landlock())
        layers &= ~(unsigned)LAYER_LANDLOCK;
    if (without_landlock)
        CHECK(refuse_call(LANDLOCK_CREATE_RULESET, 0, ENOSYS));
    if (without_filter) {
        layers &= ~(unsigned)LAYER_FILTER;
        CHECK(refuse_call(SYS_prctl, PR_SET_SECCOMP, EPERM));
    }
    check_attempts(layers);
    _exit(check_result());
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
    (void)send(CONFINED_CHANNEL, "", 1, 0);
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

int main(void)
{
    int fd = mkstemp(scratch);

    other = getppid();
    CHECK(fd >= 0 && fchmod(fd, 0666) == 0);
    check_apart(false, false, false);
    check_apart(false, false, true);
    check_apart(false, true, false);
    check_apart(false, true, true);
    if (geteuid() == 0) {
        check_apart(true, false, false);
        check_apart(true, true, true);
    }
    test_ends();
    test_cpu();
    unlink(scratch);
    return check_result();
}
