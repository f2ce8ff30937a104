/*
 * linked READY [OWN OTHER [grow]]: allocates and sleeps. Built by tests/linked.py, which gives
 * malloc and free a prefix; creates the file READY when it has begun. OWN: MiB that it keeps in the
 * jemalloc that is linked in, OTHER: in the one that serves malloc. grow: 1 MiB a second more of
 * the first.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Decoys for the search: the texts, and names that only seem to fit. */
#ifdef DECOY
static const char *const texts[] = {"thread_active_init",
                                    "opt.prof",
                                    "opt.abort",
                                    "prof.active",
                                    "___ Begin jemalloc statistics ___",
                                    "/etc/malloc.conf"};
int my_mallctl(const char *name);
int my_mallctl(const char *name)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(name, texts[i]) == 0)
            return (int)i;
    return -1;
}
char other_malloc_stats_print[8] = "5.3.0";
void *volatile mallctl = &my_mallctl; /* a variable of that name */
#endif

#ifdef FORGED
/* A table that looks like jemalloc's at its lowest level, with no table above it. */
static int forged_ctl(void)
{
    return 0;
}
struct node {
    unsigned long named;
    const char *name;
    unsigned long count;
    const void *children;
    int (*function)(void);
};
static const struct node prof_node[] = {{1, "thread_active_init", 0, NULL, forged_ctl},
                                        {1, "active", 0, NULL, forged_ctl}};
static const struct node root[] = {{1, "version", 0, NULL, forged_ctl},
                                   {1, "prof", 2, prof_node, NULL}};
const struct node *volatile top = root;
#endif

static void keep(void *(*allocate)(size_t), const char *mib)
{
    for (long i = 0; i < 128 * strtol(mib, NULL, 10); i++)
        memset(allocate(8192), 1, 8192);
}

int main(int argc, char **argv)
{
    void *(*other)(size_t) = NULL;
    FILE *ready;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
#ifdef DECOY
    if (my_mallctl(argv[0]) > 0)
        return 1;
#endif
    if (argc > 3) {
        *(void **)&other = dlsym(RTLD_DEFAULT, "malloc");
        keep(malloc, argv[2]);
        keep(other, argv[3]);
    }
    if (argc < 2 || !(ready = fopen(argv[1], "w")) || fclose(ready))
        return 2;
    for (;;) {
        char *block = malloc(1000);
        memset(block, 1, 1000);
        free(block);
        usleep(argc > 4 ? 7812 : 1000);
        if (argc > 4)
            memset(malloc(8192), 1, 8192);
    }
}
