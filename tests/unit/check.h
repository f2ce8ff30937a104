/* Checks of a test program: a failed one is printed and counted, the others still run. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

static unsigned checks_made, checks_failed;

static inline bool check_one(bool good, const char *file, int line, const char *text)
{
    checks_made++;
    if (!good) {
        checks_failed++;
        fprintf(stderr, "%s:%d: failed: %s\n", file, line, text);
    }
    return good;
}

/* True if the condition holds, so that dependent checks can be skipped. */
#define CHECK(cond) check_one(cond, __FILE__, __LINE__, #cond)

/* The exit code of main: 1 also for a program without any check. */
static inline int check_result(void)
{
    printf("%u checks, %u failed\n", checks_made, checks_failed);
    return checks_failed || !checks_made;
}
