/* The process that a name, a container or a cgroup selects, found again after each restart. */
#pragma once

#include "attach/target.h"
#include "host/selector.h"

#include <signal.h>

struct census;

struct follow {
    struct selector selector;
    struct procfs proc;
    struct census *census; /* facts about files, kept between searches */
    struct target_pin pin; /* the process that was found last; pid 0: none yet */
    bool any_allocator;    /* see selection_find */
    bool done;             /* ignore that process until it ends */
};

enum follow_end {
    FOLLOW_FOUND,   /* in follow->pin */
    FOLLOW_WAITING, /* none matches now, or several do */
    FOLLOW_FAILED,  /* fault */
};

/* Pointers in the selector must stay valid until follow_close. */
fault_code follow_open(struct follow *follow, const struct selector *selector, struct fault *fault);
void follow_close(struct follow *follow);

/* Searches once. *count is the number of matching processes. */
enum follow_end follow_look(struct follow *follow, size_t *count, struct fault *fault);
/*
 * Searches once a second until exactly one process matches; a failed search is
 * repeated, too. False if it was interrupted.
 */
bool follow_wait(struct follow *follow, const volatile sig_atomic_t *interrupted);
