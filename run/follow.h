/* The process that a name, a container or a cgroup means, found again after each restart. */
#pragma once

#include "attach/target.h"
#include "host/selector.h"

#include <signal.h>

struct census;

struct follow {
    struct selector selector;
    struct procfs proc;
    struct census *census; /* what is known about files, from one search to the next */
    struct target_pin pin; /* the process that was found last; pid 0: none yet */
    bool done;             /* with that one, until it has ended */
};

enum follow_end {
    FOLLOW_FOUND,   /* follow->pin is it */
    FOLLOW_WAITING, /* there is none now, or there are several */
    FOLLOW_FAILED,  /* fault */
};

/* What the selector points to must outlive it. */
fault_code follow_open(struct follow *follow, const struct selector *selector, struct fault *fault);
void follow_close(struct follow *follow);

/* One search. *count is the number of processes that match. */
enum follow_end follow_look(struct follow *follow, size_t *count, struct fault *fault);
/*
 * Searches once a second until there is exactly one; a search that fails is
 * made again like any other. Is there one? Else it was interrupted.
 */
bool follow_wait(struct follow *follow, const volatile sig_atomic_t *interrupted);
/* Has the process that was found ended? */
bool follow_ended(struct follow *follow);
