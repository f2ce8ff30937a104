/*
 * limits LIMIT: a process that lacks a resource or a permission.
 *
 * Prints `ready TID`. The file `beats` has rounds done, and what was found wrong (states.c).
 */
#include "beats.h"
#include "safety.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ARG(n)   offsetof(struct seccomp_data, args[n])
#define NR       offsetof(struct seccomp_data, nr)
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
/* Skips `yes` or `no` instructions. */
#define WHEN(op, value, yes, no) BPF_JUMP(BPF_JMP | (op) | BPF_K, (value), (yes), (no))
#define RETURN(action)           BPF_STMT(BPF_RET | BPF_K, (action))
#define LAST_NUMBER              500 /* of a system call, with some tolerance */

static volatile int trapped;

/* ---- seccomp ---- */

static bool load(struct sock_filter *code, size_t count)
{
    struct sock_fprog program = {(unsigned short)count, code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/* mmap and mprotect of executable memory. */
static bool filter_exec(uint32_t action)
{
    struct sock_filter code[] = {
        LOAD(NR),
        WHEN(BPF_JEQ, SYS_mmap, 1, 0),
        WHEN(BPF_JEQ, SYS_mprotect, 0, 3),
        LOAD(ARG(2)),
        WHEN(BPF_JSET, PROT_EXEC, 0, 1),
        RETURN(action),
        RETURN(SECCOMP_RET_ALLOW),
    };

    return load(code, sizeof(code) / sizeof(*code));
}

static bool filter_unknown(uint32_t action)
{
    struct sock_filter code[] = {
        LOAD(NR),
        WHEN(BPF_JGT, LAST_NUMBER, 0, 1),
        RETURN(action),
        RETURN(SECCOMP_RET_ALLOW),
    };

    return load(code, sizeof(code) / sizeof(*code));
}

/* creat, and opens for writing; jemalloc opens its maps for reading. */
static bool filter_open(uint32_t action)
{
    struct sock_filter code[] = {
        LOAD(NR),       WHEN(BPF_JEQ, SYS_creat, 4, 0), WHEN(BPF_JEQ, SYS_openat, 0, 2),
        LOAD(ARG(2)),   WHEN(BPF_JSET, O_CREAT, 1, 0),  RETURN(SECCOMP_RET_ALLOW),
        RETURN(action),
    };

    return load(code, sizeof(code) / sizeof(*code));
}

static uint32_t action_of(const char *name)
{
    if (!strcmp(name, "errno"))
        return SECCOMP_RET_ERRNO | EPERM;
    if (!strcmp(name, "trap"))
        return SECCOMP_RET_TRAP;
    return SECCOMP_RET_KILL_PROCESS;
}

/* A sandbox that answers forbidden calls by a handler. */
static void on_sigsys(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    (void)info;
    (void)context;
    trapped++;
}

static bool set_filter(const char *what, const char *action)
{
    struct sigaction sandbox = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};

    sigaction(SIGSYS, &sandbox, NULL);
    if (!strcmp(what, "exec"))
        return filter_exec(action_of(action));
    if (!strcmp(what, "unknown"))
        return filter_unknown(action_of(action));
    return filter_open(action_of(action));
}

/* ---- other limits ---- */

static bool limit(int resource, rlim_t value)
{
    struct rlimit limits = {value, value};

    return setrlimit(resource, &limits) == 0;
}

static bool no_file_size(void)
{
    return limit(RLIMIT_FSIZE, 0);
}

static bool no_descriptors(void)
{
    while (dup(0) >= 0)
        ;
    return errno == EMFILE;
}

/* No address space for the scratch area. */
static bool no_address_space(void)
{
    char *line = malloc(256);
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    if (!line || !file || !fgets(line, 256, file))
        return false;
    pages = strtoul(line, NULL, 10);
    fclose(file);
    free(line);
    return limit(RLIMIT_AS, pages * 4096 + 65536);
}

/* Neighbours of different protection cannot be merged; as many as are allowed. */
static bool no_mappings(void)
{
    const size_t page = 4096;
    char *area =
        mmap(NULL, 200000 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    for (size_t i = 0; i < 100000; i++)
        if (mprotect(area + i * 2 * page, page, PROT_READ | PROT_WRITE) != 0)
            return errno == ENOMEM;
    return false;
}

static bool deny_write_execute(void)
{
    return prctl(65 /* PR_SET_MDWE */, 1 /* PR_MDWE_REFUSE_EXEC_GAIN */, 0, 0, 0) == 0;
}

static bool nothing(void)
{
    return true;
}

/* The test fills it: touched memory, almost as much as the cgroup allows. */
static bool full_group(void)
{
    const char *text = getenv("LIMITS_BYTES");
    size_t size = text ? strtoul(text, NULL, 10) : 0;
    char *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (area == MAP_FAILED)
        return false;
    memset(area, 1, size);
    return true;
}

static const struct {
    const char *name;
    bool (*set)(void);
} limits[] = {
    {"none", nothing},
    {"file_size", no_file_size},
    {"descriptors", no_descriptors},
    {"address_space", no_address_space},
    {"mappings", no_mappings},
    {"mdwe", deny_write_execute},
    {"memory", full_group},
};

static bool apply(int argc, char **argv)
{
    if (argc == 3)
        return set_filter(argv[1], argv[2]);
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        if (!strcmp(limits[i].name, argv[1]))
            return limits[i].set();
    return false;
}

/* A few sampled blocks, so that a profile is not empty. */
static void use_memory(void)
{
    for (int i = 0; i < 64; i++) {
        void *kept = malloc(5000);
        __asm__ volatile("" ::"r"(kept) : "memory");
    }
}

int main(int argc, char **argv)
{
    struct timespec span = {0, 2000000};
    char line[] = "ready 0000000000 0\n";

    safety_begin();
    if (argc < 2 || !map_beats())
        return 2;
    use_memory();
    snprintf(line, sizeof(line), "ready %d 0\n", (int)getpid());
    if (!apply(argc, argv)) {
        puts("skip the limit cannot be set");
        return 0;
    }
    if (write(STDOUT_FILENO, line, strlen(line)) < 0)
        return 1;
    for (;;) {
        if (nanosleep(&span, NULL) != 0)
            wrong();
        beat();
        beats[1] += (uint64_t)trapped;
        trapped = 0;
    }
}
