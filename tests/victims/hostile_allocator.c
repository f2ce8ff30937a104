/*
 * An allocator's interface that lies: the environment variable HOSTILE selects how mallctl and
 * malloc_stats_print behave. It allocates nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int mallctl(const char *name, void *oldp, size_t *oldlenp,
                                                   void *newp, size_t newlen);
__attribute__((visibility("default"))) void malloc_stats_print(void (*write_cb)(void *,
                                                                                const char *),
                                                               void *opaque, const char *options);

enum { MIB = 1 << 20, PIECE = 4 * MIB };

static const char *mode = "";
static char *piece; /* PIECE bytes, the last of them before an unreadable page */

__attribute__((constructor)) static void start(void)
{
    const char *wanted = getenv("HOSTILE");

    mode = wanted ? wanted : "";
    piece = mmap(NULL, PIECE + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED || mprotect(piece + PIECE, 4096, PROT_NONE))
        abort();
    memset(piece, 'A', PIECE);
}

static int is(const char *name)
{
    return strcmp(mode, name) == 0;
}

static void put(int fd, const char *text)
{
    (void)!write(fd, text, strlen(text));
}

static void put_head(int fd)
{
    put(fd, "heap_v2/4096\n  t*: 1: 100 [0: 0]\n  t0: 1: 100 [0: 0]\n");
}

static void put_tail(int fd)
{
    put(fd, "@ 0x1000 0x2000\n  t*: 1: 100 [0: 0]\n\nMAPPED_LIBRARIES:\n");
}

/* Fills the piece with copies of a line, complete lines only; returns the length. */
static size_t fill(const char *line)
{
    size_t len = strlen(line), used = 0;

    for (; used + len <= PIECE; used += len)
        memcpy(piece + used, line, len);
    return used;
}

/* ---- content of the profile ---- */

static void claim(int fd)
{
    static char byte;
    struct iovec vectors[2] = {{piece, (size_t)1 << 40}, {&byte, SIZE_MAX}};

    (void)!syscall(SYS_write, fd, piece, SIZE_MAX);
    (void)!syscall(SYS_write, fd, piece, (size_t)1 << 40);
    (void)!syscall(SYS_write, fd, piece, (size_t)1 << 31);
    (void)!syscall(SYS_write, fd, NULL, (size_t)100);
    (void)!syscall(SYS_write, fd, piece + PIECE - 10, (size_t)100);
    (void)!syscall(SYS_writev, fd, vectors, 2);
    (void)!syscall(SYS_writev, fd, NULL, 1 << 20);
}

static void write_for_ever(int fd)
{
    for (;;)
        (void)!write(fd, piece, PIECE);
}

static void write_bytes_for_ever(int fd)
{
    for (;;)
        (void)!write(fd, piece, 1);
}

/* Ten million lines of mappings. */
static void write_maps(int fd)
{
    size_t len = fill("7f0000000000-7f0000001000 r-xp 0 00:00 1 /lib/x\n");

    put_head(fd);
    put_tail(fd);
    for (int i = 0; i < 115; i++)
        (void)!write(fd, piece, len);
}

static void write_long_lines(int fd)
{
    put_head(fd);
    put(fd, "@");
    for (int i = 0; i < 16; i++) /* an endless stack */
        (void)!write(fd, piece, fill(" 0x7f1234567890"));
    put(fd, "\n  t*: 1: 100 [0: 0]\n");
    put_tail(fd);
    put(fd, "1000-9000 r-xp 0 00:00 1 /");
    memset(piece, 'A', PIECE);
    for (int i = 0; i < 16; i++)
        (void)!write(fd, piece, PIECE);
    put(fd, "\n");
}

/* As many stacks, and as many addresses, as fit into the piece. */
static void write_stacks(int fd)
{
    char line[128];
    unsigned long address = 0x100000;

    put_head(fd);
    for (int i = 0; i < 16; i++) {
        size_t used = 0;
        while (used + sizeof line < PIECE) {
            used += (size_t)sprintf(piece + used, "@ 0x%lx 0x%lx\n  t*: 1: 1 [0: 0]\n", address,
                                    address + 1);
            address += 2;
        }
        (void)!write(fd, piece, used);
    }
    put_tail(fd);
}

/* Of files that are not libraries, at paths that exist on the tool's side. */
static void write_names(int fd)
{
    put_head(fd);
    put_tail(fd);
    put(fd, "1000-2000 r-xp 00000000 00:00 1 /proc/kmsg\n"
            "2000-3000 r-xp 00000000 00:00 1 /dev/zero\n"
            "3000-4000 r-xp 00000000 00:00 1 /../../../etc/shadow\n"
            "4000-5000 r-xp 00000000 00:00 1 \x1b]0;title\x07\x9b\xff.so\n"
            "zzzz\n-\n5000-4000 r-xp 0 00:00 1 /x\n");
}

/* A stack with code of every file whose name contains "sparse", and the true mappings. */
static void write_own(int fd)
{
    unsigned long start, end;
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");

    put_head(fd);
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "r-xp") && strstr(line, "sparse") &&
            sscanf(line, "%lx-%lx", &start, &end) == 2)
            dprintf(fd, "@ 0x%lx\n  t*: 1: 100 [0: 0]\n", start + 64);
    put_tail(fd);
    if (maps)
        rewind(maps);
    while (maps && fgets(line, sizeof line, maps))
        put(fd, line);
    if (maps)
        fclose(maps);
}

static void write_plain(int fd)
{
    put_head(fd);
    put_tail(fd);
}

/* ---- file names ---- */

static void open_many(int fd)
{
    char name[64];

    (void)fd;
    for (int i = 0; i < 500; i++) {
        sprintf(name, "many.%d", i);
        int other = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        put(other, "heap_v2/1\n");
        close(other);
        unlink(name);
    }
}

/* A directory below the working directory whose name has 4,000 bytes; returns the name of a file
   there. */
static const char *far_name(void)
{
    static char path[4096];
    char part[201];

    memset(part, 'd', 200);
    part[200] = '\0';
    if (!getcwd(path, sizeof path))
        abort();
    while (strlen(path) + 202 < 4000) {
        strcat(strcat(path, "/"), part);
        mkdir(path, 0700);
    }
    strcat(path, "/");
    size_t used = strlen(path);
    memset(path + used, 'f', 4095 - used < 255 ? 4095 - used : 255);
    return path;
}

static const char *name_of_mode(void)
{
    if (is("far"))
        return far_name();
    if (is("lines"))
        return "a\n-etc-passwd\n\x1b]0;title\x07\x1b[2J\x9b\xff";
    if (is("up"))
        return "x/../../../../../../../../../../../../../../../../etc/nothing/..";
    return "profile";
}

/* ---- the end of the call ---- */

static void *do_nothing(void *arg)
{
    return arg;
}

/* The call lasts until the file `go` exists; the directory `called` shows that it has begun. */
static void wait_for_go(void)
{
    const struct timespec moment = {0, 1000000};

    mkdir("called", 0700);
    while (access("go", F_OK))
        nanosleep(&moment, NULL);
}

static void leave(void)
{
    static char *const words[] = {"sleep", "1000", NULL};
    pthread_t thread;

    if (is("exit"))
        _exit(3);
    if (is("thread_exit"))
        syscall(SYS_exit, 0);
    if (is("kill"))
        kill(getpid(), SIGKILL);
    if (is("abort"))
        abort();
    if (is("crash"))
        raise(SIGSEGV);
    if (is("exec"))
        execvp(words[0], words);
    if (is("fork") && fork() == 0)
        _exit(0);
    if (is("thread"))
        pthread_create(&thread, NULL, do_nothing, NULL);
    if (is("stop"))
        kill(getpid(), SIGSTOP);
    if (is("sigreturn"))
        syscall(SYS_rt_sigreturn);
    while (is("calls"))
        syscall(SYS_getppid);
    while (is("spin"))
        ;
    while (is("sleep"))
        pause();
    if (is("wait"))
        wait_for_go();
}

static int dump(const char *asked)
{
    static const struct {
        const char *mode;
        void (*write)(int fd);
    } rows[] = {
        {"claim", claim},
        {"endless", write_for_ever},
        {"bytes", write_bytes_for_ever},
        {"maps", write_maps},
        {"long_lines", write_long_lines},
        {"stacks", write_stacks},
        {"modules", write_names},
        {"own", write_own},
        {"many", open_many},
    };
    int fd;

    leave();
    fd = open(asked ? asked : name_of_mode(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is(rows[i].mode))
            rows[i].write(fd);
    write_plain(fd);
    close(fd);
    return fd < 0 ? EFAULT : 0;
}

static void give_text(void *oldp, const char *text)
{
    memcpy(oldp, &text, sizeof text);
}

static const char *version(void)
{
    if (is("garbage"))
        return piece; /* endless */
    if (is("nowhere"))
        return (const char *)0x4141414141414141;
    if (is("bare"))
        return "5.3.1-0-g0";
    if (is("escapes"))
        return "5.3.0-\x1b]0;title\x07\n\x9b[31m\xff\xe2\x80\xae";
    return "5.3.0-0-g0";
}

static int is_text(const char *name)
{
    return !strcmp(name, "opt.prof_prefix") || !strcmp(name, "config.malloc_conf") ||
           !strcmp(name, "opt.dss");
}

/*
 * Like a build without statistics in a process without thread caches: reads that follow a pointer
 * which such a process never sets (src/ctl.c of 5.3.1).
 */
static void follow_null(const char *name, void *oldp)
{
    static const char *const followers[] = {".uptime", "thread.tcache.max", "prof.prefix"};
    void *buffer = NULL;
    size_t len = strlen(name);

    for (size_t i = 0; i < sizeof followers / sizeof *followers; i++) {
        size_t n = strlen(followers[i]);
        if (len >= n && !strcmp(name + len - n, followers[i]))
            raise(SIGSEGV);
    }
    if (!strncmp(name, "arena.", 6) && !strcmp(name + len - 5, ".name")) {
        memcpy(&buffer, oldp, sizeof buffer);
        memset(buffer, 0, 32);
    }
}

int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen)
{
    (void)newlen;
    if (!strcmp(name, "prof.dump")) {
        if (newp)
            memcpy(&newp, newp, sizeof newp);
        return dump(newp);
    }
    if (!strcmp(name, "experimental.hooks.prof_dump"))
        return ENOENT;
    if (!oldp || !oldlenp)
        return 0;
    if (is("bare"))
        follow_null(name, oldp);
    if (!strcmp(name, "version") || is_text(name))
        give_text(oldp, version());
    else if (is("garbage") || is("nowhere"))
        memset(oldp, 0x41, *oldlenp);
    else
        memset(oldp, *oldlenp == 1 && !is("bare") && strcmp(name, "opt.prof_sys_thread_name") != 0,
               *oldlenp);
    if (is("garbage"))
        *oldlenp = SIZE_MAX;
    return is("refuse") ? (int)0xdeadbeef : 0;
}

void malloc_stats_print(void (*write_cb)(void *, const char *), void *opaque, const char *options)
{
    (void)options;
    leave();
    piece[PIECE - 1] = '\0';
    if (is("escapes")) {
        write_cb(opaque, "{\"a\": \"\x1b]0;title\x07\"}\n\x1b[2J\x9b\xff\n");
        return;
    }
    write_cb(opaque, "{\"jemalloc\": ");
    if (is("large")) {
        write_cb(opaque, "\"");
        write_cb(opaque, piece + PIECE - MIB);
        write_cb(opaque, "\"}\n");
        return;
    }
    while (is("endless"))
        write_cb(opaque, piece);
    for (int i = 0; is("nested") && i < 1 << 20; i++)
        write_cb(opaque, "[");
    write_cb(opaque, is("broken") ? "{\"a\": }}\n" : "{}}\n");
}
