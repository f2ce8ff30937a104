/*
 * A process whose memory grows on request: `grower`, with one command a line
 * on stdin, each answered by the time (CLOCK_MONOTONIC, ns) before and after, and
 * that at which its RSS went beyond the mark, 0 if it did not.
 *
 *   grow BYTES        allocates as much more, all of it touched
 *   mark BYTES        sets the mark
 *   drop              frees everything
 *   leak BYTES RATE   allocates that much, RATE bytes a second, in pieces of 64 KiB
 *   read FILE TIMES   reads a file through a mapping, page by page
 *   exec PROGRAM      becomes that program, with one argument: 1000; no answer
 *
 * Ends at the end of its stdin. RSS falls at once only without decay
 * (MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 64 << 10 };

struct piece {
    struct piece *next;
};

static struct piece *pieces;
static volatile unsigned sum;
static size_t mark;
static uint64_t crossed;

static uint64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void look_for_mark(void)
{
    int fd = mark && !crossed ? open("/proc/self/statm", O_RDONLY | O_CLOEXEC) : -1;
    char text[128] = "";
    size_t pages;

    if (fd < 0)
        return;
    if (read(fd, text, sizeof text - 1) > 0 && sscanf(text, "%*u %zu", &pages) == 1 &&
        pages * (size_t)sysconf(_SC_PAGESIZE) > mark)
        crossed = now();
    close(fd);
}

__attribute__((noinline)) static void take(size_t bytes)
{
    struct piece *piece = malloc(bytes < sizeof *piece ? sizeof *piece : bytes);

    if (!piece)
        exit(1);
    memset(piece, 1, bytes);
    piece->next = pieces;
    pieces = piece;
    look_for_mark();
}

static void grow(size_t bytes)
{
    for (; bytes > PIECE; bytes -= PIECE)
        take(PIECE);
    take(bytes);
}

static void drop(void)
{
    while (pieces) {
        struct piece *next = pieces->next;
        free(pieces);
        pieces = next;
    }
}

static void leak(size_t bytes, size_t rate)
{
    uint64_t began = now();
    size_t taken = 0;

    while (taken < bytes) {
        struct timespec pause = {0, 2000000};
        size_t due = (size_t)((double)(now() - began) / 1e9 * (double)rate);
        for (; taken < bytes && taken < due; taken += PIECE)
            take(PIECE);
        nanosleep(&pause, NULL);
    }
}

static void read_file(const char *path, unsigned times)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st))
        exit(1);
    while (times-- > 0) {
        unsigned char *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED)
            exit(1);
        for (off_t i = 0; i < st.st_size; i += 4096)
            sum += at[i];
        munmap(at, (size_t)st.st_size);
    }
    close(fd);
}

static void obey(char *line)
{
    char path[512];
    size_t bytes, rate;
    unsigned times;

    if (sscanf(line, "mark %zu", &bytes) == 1)
        mark = bytes;
    else if (sscanf(line, "grow %zu", &bytes) == 1)
        grow(bytes);
    else if (sscanf(line, "leak %zu %zu", &bytes, &rate) == 2)
        leak(bytes, rate);
    else if (sscanf(line, "read %511s %u", path, &times) == 2)
        read_file(path, times);
    else if (sscanf(line, "exec %511s", path) == 1)
        execl(path, path, "1000", (char *)NULL);
    else if (strcmp(line, "drop\n") == 0)
        drop();
    else
        exit(2);
}

int main(void)
{
    char line[640];

    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready\n");
    while (fgets(line, sizeof line, stdin)) {
        uint64_t before = now();
        crossed = 0;
        obey(line);
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", before, now(), crossed);
    }
    return 0;
}
