/*
 * The processes that the target forks while prof.active is true because of a run: fork(2)
 * copies that value, and in the children nobody switches it off. They are named, and nothing
 * is written in them: a fork shares its pages with the target, and each write would copy one.
 */
#pragma once

#include "attach/exec_mark.h"
#include "run/attachment.h"

enum { CHILDREN_LISTED = 100 };

struct children {
    bool awaited;          /* since is known, and children_look has not run */
    uint64_t since;        /* as proc_stat.start: prof.active was switched on */
    struct exec_mark mark; /* of the target */
    remote_addr active_at; /* prof.active, in the target and in its forks; 0: unknown */
    size_t count;          /* those in which prof.active is true, or unknown */
    pid_t first[CHILDREN_LISTED];
};

/* Call it before prof.active becomes true. */
void children_await(struct children *children);
/* Call it then, with no thread stopped and while the target lives. */
void children_recognise(struct children *children, struct attachment *attachment);

/*
 * Call it once prof.active of the target is false again, or the target has ended: looks for
 * its children and theirs that live and in which prof.active is true. A child that has executed
 * a program, even the same one, has a state of its own and is left out, as is the child of a
 * vfork(2), whose memory is the target's.
 */
void children_look(struct children *children, struct attachment *attachment);
