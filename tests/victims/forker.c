/*
 * A process that forks for ever, or makes related calls.
 *
 *   forker REPORT alone    its only thread forks, which takes most of its time
 *   forker REPORT beside   another thread forks, and each child searches for the tool's memory
 *   forker REPORT asked    another thread forks at each byte of stdin, without the handlers of
 *                          pthread_atfork(3), and prints the process, which stays until the end:
 *                          '\n' a child, 'g' a child of a child, 'o' one whose parent has ended,
 *                          'v' one of vfork(2), the last as the thread waits for its end,
 *                          'd' a child that is not dumpable, 'x' one that executes this program
 *                          anew, as forker REPORT stays, with prof_active:true
 *   forker REPORT maps     another thread maps areas as large as the scratch area's data, which
 *                          must stay mapped until it unmaps them: SIGSEGV if they do not
 *
 *   forker REPORT handles  no thread forks; it handles SIGSYS
 *
 * REPORT is a file of eight numbers, see struct report. Ends with its parent. It is also built
 * against old C libraries, and with LOADS as a static program that loads a library.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct report {
    uint64_t ready, rounds;
    uint64_t used;  /* children that have a used scratch area */
    uint64_t empty; /* children that have an empty one, forked before it could be hidden */
};

/* Mappings of its own: fork(2) copies each, which is most of a round. */
enum {
    AREAS = 1000,
    PAGE = 4096,
    EMPTY_SCRATCH = PAGE + (256 << 10),
    MAPS_MAX = 64 << 10,
    HELD = 48,
    LOOKS = 60,
    USER_TURNS = 300000
};

static volatile struct report *report;
static char maps[MAPS_MAX];
static const char *report_path;

static void fail(const char *what)
{
    perror(what);
    _exit(1);
}

static void make_areas(void)
{
    char *at = mmap(NULL, (size_t)AREAS * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        fail("mmap");
    for (size_t i = 0; i < AREAS; i += 2)
        if (mprotect(at + i * PAGE, PAGE, PROT_READ | PROT_WRITE))
            fail("mprotect");
}

static size_t read_maps(void)
{
    int fd = open("/proc/self/maps", O_RDONLY);
    size_t used = 0;
    ssize_t n;

    while (fd >= 0 && used < sizeof maps - 1 &&
           (n = read(fd, maps + used, sizeof maps - 1 - used)) > 0)
        used += (size_t)n;
    maps[used] = '\0';
    return used;
}

/* Executable memory without a file: "START-END r-xp 00000000 00:00 0 \n". */
static void look_for_scratch(void)
{
    read_maps();
    for (char *line = maps, *end; (end = strchr(line, '\n')); line = end + 1) {
        char *perms;
        *end = '\0';
        uint64_t start = strtoull(line, &perms, 16), stop = strtoull(perms + 1, &perms, 16);
        if (strncmp(perms, " r-xp 00000000 00:00 0", 22) != 0 || strchr(perms, '['))
            continue;
        if (stop - start == EMPTY_SCRATCH)
            __atomic_add_fetch(&report->empty, 1, __ATOMIC_RELAXED);
        else
            __atomic_add_fetch(&report->used, 1, __ATOMIC_RELAXED);
    }
}

static void fork_once(int looks)
{
    pid_t child = fork();

    if (child == 0) {
        if (looks)
            look_for_scratch();
        _exit(0);
    }
    if (child < 0 || waitpid(child, NULL, 0) != child)
        fail("fork");
    report->rounds++;
}

static void *fork_beside(void *unused)
{
    for (;;)
        fork_once(1);
    return unused;
}

/* Until the writer of the pipe has ended, whatever becomes of the parent. */
static void stay(void)
{
    struct pollfd end = {.fd = STDIN_FILENO};

    dprintf(STDOUT_FILENO, "%ld\n", syscall(SYS_getpid));
    poll(&end, 1, -1);
    _exit(0);
}

static void execute_anew(void)
{
    setenv("MALLOC_CONF", "prof:true,prof_active:true", 1);
    execl("/proc/self/exe", "forker", report_path, "stays", NULL);
    fail("execl");
}

static void be_asked_for(char kind)
{
    if (kind == 'g' || kind == 'o') {
        long child = syscall(SYS_fork);
        if (child && kind == 'o')
            _exit(0);
        if (child)
            waitpid((pid_t)child, NULL, 0);
    }
    if (kind == 'd' && prctl(PR_SET_DUMPABLE, 0))
        fail("prctl");
    if (kind == 'x')
        execute_anew();
    stay();
}

static void *fork_when_asked(void *unused)
{
    char byte;

    signal(SIGCHLD, SIG_IGN);
    while (read(STDIN_FILENO, &byte, 1) == 1)
        if (byte == 'v' ? vfork() == 0 : syscall(SYS_fork) == 0)
            be_asked_for(byte);
    return unused;
}

/*
 * Areas that no commit limit counts. One at a time would always get the same address. Between
 * two rounds it is in user mode: it does not look as if it kept the address space locked.
 */
static void *map_and_look(void *unused)
{
    static volatile char *areas[HELD];
    char sum = 0;

    for (;; report->rounds++) {
        for (size_t i = 0; i < HELD; i++)
            if ((areas[i] = mmap(NULL, EMPTY_SCRATCH - PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
                                 -1, 0)) == MAP_FAILED)
                fail("mmap");
        for (size_t i = 0; i < HELD * LOOKS; i++)
            sum ^= areas[i % HELD][i / HELD * PAGE];
        for (size_t i = 0; i < HELD; i++)
            munmap((void *)(uintptr_t)areas[i], EMPTY_SCRATCH - PAGE);
        report->used = (unsigned char)sum;
        for (volatile unsigned i = 0; i < USER_TURNS; i++)
            continue;
    }
    return unused;
}

static void ignore(int number)
{
    (void)number;
}

static void *count(void *unused)
{
    for (;; report->rounds++)
        usleep(1000);
    return unused;
}

static void start(void *(*run)(void *))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, NULL))
        fail("pthread_create");
    report->ready = 1;
    for (;;)
        usleep(1000);
}

static void open_report(const char *path)
{
    int fd = open(path, O_RDWR);

    if (fd < 0)
        fail(path);
    report = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (report == MAP_FAILED)
        fail(path);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_report(report_path = argv[1]);
#ifdef LOADS
    if (!dlopen("libm.so.6", RTLD_NOW))
        fail(dlerror());
#endif
    void *block = malloc(100);
    *(volatile char *)block = 1;
    if (strcmp(argv[2], "beside") == 0)
        start(fork_beside);
    if (strcmp(argv[2], "maps") == 0)
        start(map_and_look);
    if (strcmp(argv[2], "asked") == 0)
        start(fork_when_asked);
    if (strcmp(argv[2], "stays") == 0)
        stay();
    if (strcmp(argv[2], "handles") == 0 && signal(SIGSYS, ignore) != SIG_ERR)
        start(count);
    make_areas();
    report->ready = 1;
    for (;;)
        fork_once(0);
}
