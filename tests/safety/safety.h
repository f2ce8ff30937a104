/* The first steps of every victim. */
#ifndef SAFETY_H
#define SAFETY_H

#include <jemalloc/jemalloc.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>

/* It ends with its parent, and jemalloc is linked in and initialized. */
static inline void safety_begin(void)
{
    const char *version = NULL;
    size_t size = sizeof(version);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mallctl("version", (void *)&version, &size, NULL, 0);
}

#endif
