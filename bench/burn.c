/*
 * burn MICROSECONDS: a command that uses that much CPU time and touches no process. The delay of
 * other threads during it is the part that the scheduler causes during any command.
 */
#include <err.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    char *end = NULL;
    unsigned long us = argc == 2 ? strtoul(argv[1], &end, 10) : 0;
    struct timespec used;

    if (argc != 2 || *argv[1] == '\0' || *end != '\0')
        errx(2, "usage: burn MICROSECONDS");
    do {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while ((unsigned long)used.tv_sec * 1000000u + (unsigned long)used.tv_nsec / 1000u < us);
}
