/*
 * floor.so, preloaded: measures jemalloc's calls inside the process, where no tool can be faster.
 * Its thread listens on the unix socket that JEATTACH_FLOOR names and answers each line with
 * "NANOSECONDS RESULT":
 *
 *   dump PATH             prof.dump to PATH
 *   toggle                inverts prof.active
 *   calls WORD...         calls mallctl once for each word
 *   print OPTIONS [PATH]  calls malloc_stats_print with a callback that collects the text, then
 *                         writes it to PATH; OPTIONS - means no option
 *   fill                  makes a heap as after some work: live blocks of many sizes, allocated
 *                         again by stacks of many depths, and pages that were used and freed
 *
 * The words of `calls`; a read uses a variable of the size that jemalloc has for the name:
 *
 *   NAME         read
 *   NAME=bVALUE  write a bool and read the former value
 *   NAME=qVALUE  write 8 bytes and read the former value
 *   NAME=sTEXT   write a string
 *   NAME!        neither read nor write
 *
 * RESULT is the first return code that is not 0. Not counted as failures: a name that the build
 * does not have, and hooks of an arena that does not exist yet.
 */
#include "slots.h"

#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { LINE_MAX_BYTES = 32 << 10, CALLS_MAX = 256 };
enum { KEPT = 2048, SIZE_CLASSES = 12, DEPTHS = 32, DIRTIED = 16, DIRTIED_BYTES = 1 << 20 };

extern int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen)
    __attribute__((weak));
extern void malloc_stats_print(void (*write_cb)(void *, const char *), void *ctx,
                               const char *options) __attribute__((weak));

struct answer {
    uint64_t ns;
    int result;
};

static struct answer ctl_write(const char *name, void *value, size_t size)
{
    uint64_t start = clock_ns();
    int result = mallctl(name, NULL, NULL, value, size);

    return (struct answer){clock_ns() - start, result};
}

static struct answer toggle(void)
{
    bool active = false;
    size_t size = sizeof(active);

    mallctl("prof.active", &active, &size, NULL, 0);
    active = !active;
    return ctl_write("prof.active", &active, sizeof(active));
}

/* ---- calls ---- */

struct call {
    const char *name;
    size_t old_size, new_size; /* 0: none */
    uint64_t new_value;        /* for a string: its address */
    uint64_t old_value;
};

/* Returns the size of the name's type. A read with another size fails without effect. */
static size_t size_find(const char *name)
{
    static const size_t sizes[] = {8, 4, 1};
    uint64_t value;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        size_t size = sizes[i];

        if (mallctl(name, &value, &size, NULL, 0) == 0)
            return size;
    }
    return sizes[0];
}

static struct call call_parse(char *word)
{
    struct call call = {.name = word};
    char *value = strchr(word, '=');
    size_t length = strlen(word);

    if (value != NULL) {
        *value++ = '\0';
        call.new_size = *value == 'b' ? 1 : 8;
        call.old_size = *value == 's' ? 0 : call.new_size;
        call.new_value =
            *value == 's' ? (uint64_t)(uintptr_t)(value + 1) : strtoull(value + 1, NULL, 10);
    } else if (length > 0 && word[length - 1] == '!') {
        word[length - 1] = '\0';
    } else {
        call.old_size = size_find(word);
    }
    return call;
}

static int call_make(struct call *call)
{
    size_t size = call->old_size;

    return mallctl(call->name, size != 0 ? &call->old_value : NULL, size != 0 ? &size : NULL,
                   call->new_size != 0 ? &call->new_value : NULL, call->new_size);
}

static bool is_absent_arena(const struct call *call, int result)
{
    return result == EFAULT && strstr(call->name, "_hooks") != NULL;
}

static struct answer calls_make(char *words)
{
    static struct call calls[CALLS_MAX];
    struct answer answer = {0, 0};
    size_t count = 0;
    uint64_t start;

    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        if (count == CALLS_MAX)
            return (struct answer){0, E2BIG};
        calls[count++] = call_parse(word);
    }
    start = clock_ns();
    for (size_t i = 0; i < count; i++) {
        int result = call_make(&calls[i]);

        if (answer.result == 0 && result != ENOENT && !is_absent_arena(&calls[i], result))
            answer.result = result;
    }
    answer.ns = clock_ns() - start;
    return answer;
}

/* ---- print ---- */

static char report[32 << 20]; /* static: allocated memory would be in the report */
static size_t report_length;

static void report_append(void *ctx, const char *text)
{
    size_t length = strlen(text);
    size_t room = sizeof(report) - report_length;

    (void)ctx;
    memcpy(report + report_length, text, length < room ? length : room);
    report_length += length < room ? length : room;
}

static int report_write(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool whole;

    if (fd < 0)
        return errno;
    whole = write(fd, report, report_length) == (ssize_t)report_length;
    close(fd);
    return whole ? 0 : EIO;
}

static struct answer report_print(char *words)
{
    const char *options = strtok(words, " ");
    const char *path = strtok(NULL, " ");
    struct answer answer = {0, 0};
    uint64_t start;

    if (options == NULL || malloc_stats_print == NULL)
        return (struct answer){0, EINVAL};
    report_length = 0;
    start = clock_ns();
    malloc_stats_print(report_append, NULL, strcmp(options, "-") == 0 ? "" : options);
    answer.ns = clock_ns() - start;
    if (path != NULL)
        answer.result = report_write(path);
    return answer;
}

/* ---- fill ---- */

/* The asm prevents a tail call, so that each depth is another stack. */
static __attribute__((noinline)) void *block_make(unsigned depth, size_t size)
{
    void *block = depth == 0 ? malloc(size) : block_make(depth - 1, size);

    __asm__ volatile("" : "+r"(block));
    return block;
}

/* Returns a block that was written to, so that its pages are in memory. */
static void *block_make_used(unsigned depth, size_t size)
{
    void *block = block_make(depth, size);

    if (block == NULL)
        errx(1, "floor.so: no memory");
    memset(block, 1, size);
    return block;
}

static struct answer heap_fill(void)
{
    static void *kept[KEPT];
    void *dirtied[DIRTIED];

    for (unsigned i = 0; i < KEPT; i++) {
        free(kept[i]);
        kept[i] = block_make_used(i % DEPTHS, (size_t)16 << i % SIZE_CLASSES);
    }
    for (unsigned i = 0; i < DIRTIED; i++)
        dirtied[i] = block_make_used(0, DIRTIED_BYTES);
    for (unsigned i = 0; i < DIRTIED; i++)
        free(dirtied[i]);
    return (struct answer){0, 0};
}

/* ---- the socket ---- */

/* Returns the words after the command; NULL if the line has another command. */
static char *words_of(char *line, const char *command)
{
    size_t length = strlen(command);

    return strncmp(line, command, length) == 0 && line[length] == ' ' ? line + length + 1 : NULL;
}

static struct answer line_obey(char *line)
{
    char *words;

    if (strcmp(line, "toggle") == 0)
        return toggle();
    if (strcmp(line, "fill") == 0)
        return heap_fill();
    if ((words = words_of(line, "dump")) != NULL)
        return ctl_write("prof.dump", &words, sizeof(words));
    if ((words = words_of(line, "calls")) != NULL)
        return calls_make(words);
    if ((words = words_of(line, "print")) != NULL)
        return report_print(words);
    return (struct answer){0, -1};
}

/* Reads one line and replaces its newline by a NUL. False at the end of the stream. */
static bool line_read(int peer, char *line, size_t size)
{
    size_t length = 0;

    while (length == 0 || line[length - 1] != '\n') {
        ssize_t count = read(peer, line + length, size - length);

        if (count <= 0)
            return false;
        length += (size_t)count;
    }
    line[length - 1] = '\0';
    return true;
}

/* Answers one line for each connection. */
static void peer_serve(int peer)
{
    static char line[LINE_MAX_BYTES];
    struct answer answer;

    if (!line_read(peer, line, sizeof(line)))
        return;
    answer = line_obey(line);
    dprintf(peer, "%llu %d\n", (unsigned long long)answer.ns, answer.result);
}

static void *floor_serve(void *arg)
{
    int listener = *(int *)arg;

    for (;;) {
        int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (peer < 0)
            return NULL;
        peer_serve(peer);
        close(peer);
    }
}

static int floor_listen(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof(address.sun_path))
        errx(2, "path too long: %s", path);
    strcpy(address.sun_path, path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 4) < 0)
        err(1, "%s", path);
    return fd;
}

static __attribute__((constructor)) void floor_start(void)
{
    static int listener;
    const char *path = getenv("JEATTACH_FLOOR");
    pthread_t thread;

    if (path == NULL)
        return;
    if (mallctl == NULL)
        errx(1, "floor.so: no jemalloc in this process");
    listener = floor_listen(path);
    if (pthread_create(&thread, NULL, floor_serve, &listener) != 0)
        errx(1, "floor.so: no thread");
    unsetenv("JEATTACH_FLOOR");
}
