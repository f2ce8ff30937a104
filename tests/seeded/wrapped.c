/*
 * Two functions below query_prepare keep memory, through wrappers of malloc as MariaDB has them;
 * query_run keeps none. It works until its stdin ends.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 500 };

struct kept {
    struct kept *next;
    char bytes[KEPT];
};

static struct kept *all;
static void *last;

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE static void *my_malloc(size_t size)
{
    return memset(malloc(size), 1, size);
}

NOINLINE static void *init_alloc_root(size_t size)
{
    char *block = my_malloc(size);

    block[1] = 'r';
    return block;
}

NOINLINE static void keep(struct kept *kept)
{
    kept->next = all;
    all = kept;
}

NOINLINE static void tree_copy(void)
{
    keep(init_alloc_root(sizeof(struct kept)));
}

NOINLINE static void plan_make(void)
{
    keep(init_alloc_root(sizeof(struct kept)));
}

NOINLINE static void query_prepare(int number)
{
    tree_copy();
    if (number % 4)
        plan_make();
}

NOINLINE static void query_run(void)
{
    free(last);
    last = my_malloc(sizeof(struct kept));
}

NOINLINE static void serve(int number)
{
    query_prepare(number);
    query_run();
}

int main(void)
{
    struct pollfd input = {.events = POLLIN};

    puts("ready");
    fflush(stdout);
    for (int number = 0; poll(&input, 1, 1) == 0; number++)
        serve(number);
    return 0;
}
