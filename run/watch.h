/* A whole watch: of one process, or of each process in turn that a selector matches. */
#pragma once

#include "run/follow.h"
#include "run/watching.h"

struct watch {
    struct watching watching; /* with the request and the rules */
    const char *wanted;       /* what is searched for, for EVENT_WAITING */
    bool endless;             /* after request.most profiles, wait for the next process */
    struct follow follow;     /* for watch_matching */
    struct target_pin former; /* the process before; its pidfd is not used */
    unsigned failures;        /* consecutive, to open the same process */
    bool patient;             /* a failure is retried, as a process may just be starting */
};

/* Checks that the directory exists and that a file can be created in it. */
fault_code watch_check_directory(const char *directory, struct fault *fault);

/*
 * Watches the process of request.attach, also in another program after
 * execve(2), until the result is COURSE_ENDED, COURSE_FULL, COURSE_INTERRUPTED
 * or COURSE_FAILED with watching.fault. Nothing stays open.
 */
enum course watch_process(struct watch *watch);
/*
 * Watches what watch->follow finds, one process after the other, with the same
 * results. An opened process that fails is retried, unless it was the first.
 */
enum course watch_matching(struct watch *watch);
/* Reports EVENT_WAITING, before watch_matching if no process matches yet. */
enum course watch_report_waiting(struct watch *watch);
