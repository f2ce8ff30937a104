/*
 * A server in C that leaks: session_new keeps 1 KiB for each request, of which 600 bytes come
 * through a wrapper of malloc and the rest through strdup. Requests come and go, and a cache of
 * 64 MiB, made at the start, stays.
 *
 * It prints "ready", and works until its stdin ends.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CACHE_BYTES = 64 << 20, CACHE_BLOCK = 4096, REQUESTS = 256, SESSIONS_PER_MS = 4 };

struct session {
    struct session *next;
    char *name;
    char state[580];
};

static struct session *sessions;
static void *requests[REQUESTS];
static void *cache[CACHE_BYTES / CACHE_BLOCK];

static void *xmalloc(size_t size)
{
    void *block = malloc(size);

    if (!block)
        abort();
    return memset(block, 1, size);
}

__attribute__((noinline)) static void session_new(const char *name)
{
    struct session *session = xmalloc(sizeof *session);

    session->next = sessions;
    session->name = strdup(name);
    sessions = session;
}

__attribute__((noinline)) static void request_serve(unsigned number)
{
    void **request = &requests[number % REQUESTS];

    free(*request);
    *request = xmalloc(2048 + number % 512);
}

__attribute__((noinline)) static void cache_fill(void)
{
    for (size_t i = 0; i < sizeof cache / sizeof *cache; i++)
        cache[i] = xmalloc(CACHE_BLOCK);
}

int main(void)
{
    struct pollfd input = {.events = POLLIN};
    char name[400];

    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    cache_fill();
    puts("ready");
    fflush(stdout);
    for (unsigned number = 0; poll(&input, 1, 1) == 0; number++)
        for (unsigned i = 0; i < SESSIONS_PER_MS; i++) {
            request_serve(number * SESSIONS_PER_MS + i);
            session_new(name);
        }
    return 0;
}
