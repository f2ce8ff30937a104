/*
 * A 64-bit program that waits in system calls of the i386 table, made by int $0x80.
 *
 *   int80 CALL REPORT
 *
 * CALL is nanosleep or poll, each of MS milliseconds. The file REPORT
 * holds the number of rounds, of results that were wrong, and of waits that were too short, as
 * 64-bit numbers. Exit code 77 if the kernel has no int $0x80. Ends when its parent does.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MS = 30, NS_PER_MS = 1000000 };

struct arguments {
    int32_t timeout[2]; /* struct timespec of i386 */
    struct pollfd poll;
};

/* The number is loaded next to the instruction, as C libraries do. */
#define INT80(nr, a, b, c, d)                                                                      \
    __extension__({                                                                                \
        long result;                                                                               \
        __asm__ volatile("movl %1, %%eax\n\tint $0x80"                                             \
                         : "=&a"(result)                                                           \
                         : "i"(nr), "b"((long)(a)), "c"((long)(b)), "d"((long)(c)), "S"((long)(d)) \
                         : "memory", "r8", "r9", "r10", "r11");                                    \
        (int)result;                                                                               \
    })

static int wait_in(const char *call, struct arguments *arguments)
{
    arguments->timeout[0] = 0;
    arguments->timeout[1] = MS * NS_PER_MS;
    arguments->poll = (struct pollfd){.fd = -1};
    if (strcmp(call, "nanosleep") == 0)
        return INT80(162, arguments->timeout, 0, 0, 0);
    return INT80(168, &arguments->poll, 1, MS, 0);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void refused(int number)
{
    (void)number;
    _exit(77);
}

int main(int argc, char **argv)
{
    void *low = mmap(NULL, sizeof(struct arguments), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    volatile uint64_t *report;
    char *block = malloc(100);
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 3 || !block || low == MAP_FAILED || (fd = open(argv[2], O_RDWR)) < 0)
        return 2;
    block[0] = 1;
    report = mmap(NULL, 3 * sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (report == MAP_FAILED)
        return 2;
    signal(SIGSEGV, refused);
    if (INT80(20, 0, 0, 0, 0) != getpid())
        return 77;
    for (;;) {
        uint64_t begun = now_ns();
        if (wait_in(argv[1], low) != 0)
            ++report[1];
        else if (now_ns() - begun < (MS - 1) * (uint64_t)NS_PER_MS)
            ++report[2];
        ++report[0];
    }
}
