/*
 * nest [KIND]: touches new pages in known calls, again and again (e2e_walks.py). KIND:
 * plain (default), alternate (in a signal handler with its own stack), deep (in a
 * recursion), thread (in a thread that is not the first one, whose id it prints).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OWN __attribute__((noinline))

enum { PAGE = 4096, PAGES = 16, DEEP = 200 };

static volatile long sink;
static volatile char stack[64 << 10];

static char *new_pages(void)
{
    return mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

OWN void touch(char *bytes)
{
    for (int i = 0; i < PAGES; i++)
        bytes[i * PAGE] = 1;
    sink++;
}

OWN void inner(int n)
{
    char *bytes = new_pages();

    touch(bytes);
    munmap(bytes, PAGES * PAGE);
    sink += n;
}

OWN void fill(int n)
{
    char *bytes = new_pages();

    memset(bytes, n, PAGES * PAGE);
    sink += bytes[n];
    munmap(bytes, PAGES * PAGE);
}

OWN int compare(const void *a, const void *b)
{
    inner(1);
    return *(const int *)a - *(const int *)b;
}

/* An array of unknown size: the frame is found by another register. */
OWN void array(int n)
{
    char bytes[n * 16 + 1];

    memset(bytes, 1, sizeof bytes);
    inner(bytes[n]);
    fill(n);
    sink += bytes[1];
}

/* The stack pointer is aligned: the frame is found by an expression. */
OWN void aligned(int n)
{
    _Alignas(64) volatile char bytes[192];

    bytes[n] = 1;
    inner(n + bytes[n]);
    sink += bytes[n];
}

OWN void sort(int n)
{
    int list[] = {n, 1};

    qsort(list, 2, sizeof *list, compare);
    sink += list[1];
}

OWN void handle(int number)
{
    inner(number);
    sink++;
}

OWN void interrupted(int number)
{
    raise(number);
    sink++;
}

OWN void recurse(int n)
{
    if (n)
        recurse(n - 1);
    else
        inner(n);
    sink++;
}

OWN void outer(int n)
{
    array(n);
    aligned(n);
    sort(n);
    interrupted(SIGUSR1);
    sink++;
}

OWN void repeat(void (*function)(int), int n)
{
    for (;;) {
        function(n);
        usleep(1000);
    }
}

static void *in_thread(void *arg)
{
    (void)arg;
    printf("%ld\n", syscall(SYS_gettid));
    fflush(stdout);
    repeat(outer, 5);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "plain";
    struct sigaction action = {.sa_handler = handle};
    stack_t other = {.ss_sp = (void *)stack, .ss_size = sizeof stack};
    pthread_t thread;

    sigaction(SIGUSR1, &action, NULL);
    if (strcmp(kind, "alternate") == 0) {
        action.sa_flags = SA_ONSTACK;
        sigaltstack(&other, NULL);
        sigaction(SIGUSR2, &action, NULL);
        repeat(interrupted, SIGUSR2);
    }
    if (strcmp(kind, "deep") == 0)
        repeat(recurse, DEEP);
    if (strcmp(kind, "thread") == 0 && pthread_create(&thread, NULL, in_thread, NULL) == 0)
        pthread_join(thread, NULL);
    repeat(outer, 5);
    return 0;
}
