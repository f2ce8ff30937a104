/*
 * The processes that the target forks while prof.active is true because of a run: fork(2)
 * copies that value, and in the children nobody switches it off.
 */
#pragma once

#include "attach/exec_mark.h"
#include "run/attachment.h"

enum { CHILDREN_LISTED = 100 };

struct child_list {
    size_t count;
    pid_t first[CHILDREN_LISTED];
};

struct children {
    bool awaited;           /* since is known, and children_switch_off has not run */
    uint64_t since;         /* as proc_stat.start: prof.active was switched on */
    struct exec_mark mark;  /* of the target */
    struct child_list off;  /* prof.active was switched off in them */
    struct child_list left; /* it may still be true: that could not be proven, or not be written */
};

/* Call it before prof.active becomes true. */
void children_await(struct children *children);
/* Call it then, with no thread stopped and while the target lives. */
void children_recognise(struct children *children, struct attachment *attachment);

/*
 * Call it once prof.active of the target is false again, or the target has ended: switches
 * it off in its children and theirs that live, as `off --no-call` does. Only in those that
 * started between children_await and now, and have the exec mark of the target: a child
 * that has executed a program, even the same one, has a state of its own. Takes at most 10
 * seconds for all; children that come later, and those in which another run of the tool is
 * at work, are left.
 */
void children_switch_off(struct children *children, struct attachment *attachment);
