/*
 * A program whose garbage collector stops the world by signals (libgc), and which also uses malloc,
 * that is, jemalloc: collected MODE REPORT. There is one mode.
 *
 * Each thread has live objects that only its own stack or registers lead to, and checks them all
 * the time: an object that the collector has freed by mistake is allocated again, and its contents
 * change.
 */
#define GC_THREADS
#include "report.h"

#include <fcntl.h>
#include <gc/gc.h>
#include <gc/gc_mark.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 40, WORDS = 13, ALLOCATORS = 3, BLOCKS = 24 };

struct node {
    struct node *next;
    uint64_t words[WORDS];
};

static struct report *report;

static void fault(const char *text)
{
    __atomic_add_fetch(&report->errors, 1, __ATOMIC_SEQ_CST);
    snprintf(report->text, sizeof report->text, "%s", text);
}

static struct node *node_new(struct node *next, uint64_t seed)
{
    struct node *node = GC_MALLOC(sizeof *node);

    if (!node)
        abort();
    node->next = next;
    for (unsigned i = 0; i < WORDS; i++)
        node->words[i] = seed * 0x9e3779b97f4a7c15u + i;
    return node;
}

static bool node_holds(const struct node *node, uint64_t seed)
{
    for (unsigned i = 0; i < WORDS; i++)
        if (node->words[i] != seed * 0x9e3779b97f4a7c15u + i)
            return false;
    return true;
}

static struct node *list_new(uint64_t seed)
{
    struct node *list = NULL;

    for (unsigned i = 0; i < NODES; i++)
        list = node_new(list, seed + i);
    return list;
}

static bool list_holds(const struct node *list, uint64_t seed)
{
    unsigned left = NODES;

    for (; list && left > 0; list = list->next)
        if (!node_holds(list, seed + --left))
            return false;
    return !list && left == 0;
}

static void sleep_a_moment(long ns)
{
    struct timespec pause = {0, ns};

    nanosleep(&pause, NULL);
}

/* Sleeps, with a list that one word of its stack leads to. */
static __attribute__((noinline)) void sleeper_round(uint64_t seed)
{
    struct node *volatile list = list_new(seed);

    for (unsigned i = 0; i < 40; i++) {
        sleep_a_moment(500000);
        if (!list_holds(list, seed))
            fault("a list that a sleeper's stack leads to was collected");
    }
}

static void *sleeper(void *unused)
{
    (void)unused;
    for (uint64_t seed = 1;; seed++) {
        sleeper_round(seed << 20);
        __atomic_add_fetch(&report->helper_rounds, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static struct node *volatile anchor; /* the spinner's object, while no register has it */

static __attribute__((noinline)) void anchor_node(uint64_t seed)
{
    anchor = node_new(NULL, seed);
}

/* For a while r12 holds the only pointer to it. */
static __attribute__((noinline)) void spin_with_register(void)
{
    __asm__ volatile("movq %0, %%r12\n"
                     "movq $0, %0\n"
                     "movl $3000000, %%ecx\n"
                     "1: decl %%ecx\n"
                     "jnz 1b\n"
                     "movq %%r12, %0\n"
                     "xorl %%r12d, %%r12d\n"
                     : "+m"(anchor)
                     :
                     : "r12", "rcx", "cc", "memory");
}

static void *spinner(void *unused)
{
    (void)unused;
    for (uint64_t seed = 1;; seed++) {
        anchor_node(seed);
        GC_clear_stack(NULL);
        spin_with_register();
        if (!node_holds(anchor, seed))
            fault("an object that a register led to was collected");
        __atomic_add_fetch(&report->helper_rounds, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* Takes jemalloc's locks all the time: it is most often stopped while it has one. */
static void *allocator(void *unused)
{
    void *blocks[BLOCKS] = {NULL};
    unsigned seed = 1;

    (void)unused;
    for (uint64_t round = 1;; round++) {
        struct node *volatile list = list_new(round << 20);
        for (unsigned i = 0; i < 2000; i++) {
            unsigned at = (unsigned)rand_r(&seed) % BLOCKS;
            free(blocks[at]);
            blocks[at] = malloc(16u << rand_r(&seed) % 12);
        }
        if (!list_holds(list, round << 20))
            fault("a list that an allocator's stack leads to was collected");
        __atomic_add_fetch(&report->helper_rounds, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* Stops the world every millisecond, and allocates freed objects again. */
static void *collector(void *unused)
{
    (void)unused;
    for (uint64_t round = 1;; round++) {
        struct node *volatile list = list_new(round << 20);
        GC_gcollect();
        for (unsigned i = 0; i < 20; i++)
            (void)list_new(~round);
        if (!list_holds(list, round << 20))
            fault("a list that the collector's own stack leads to was collected");
        __atomic_add_fetch(&report->iterations, 1, __ATOMIC_SEQ_CST);
        sleep_a_moment(1000000);
    }
    return NULL;
}

static void map_report(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd >= 0)
        report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || report == MAP_FAILED)
        abort();
    close(fd);
}

static void start(void *(*thread)(void *))
{
    pthread_t id;

    if (pthread_create(&id, NULL, thread, NULL) != 0)
        abort();
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    map_report(argv[2]);
    GC_INIT();
    GC_allow_register_threads();
    start(sleeper);
    start(spinner);
    start(collector);
    for (unsigned i = 0; i < ALLOCATORS; i++)
        start(allocator);
    report->magic = REPORT_MAGIC;
    report->pid = getpid();
    __atomic_store_n(&report->state, REPORT_READY, __ATOMIC_SEQ_CST);
    return sleeper(NULL) != NULL;
}
