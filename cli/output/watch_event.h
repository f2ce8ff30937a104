/* What `watch` tells: a line for each event on stderr, or with --json an object on stdout. */
#pragma once

#include "run/attachment.h"
#include "run/rules.h"

enum event_kind {
    EVENT_WATCHING, /* a process is watched from now on */
    EVENT_PROFILE,  /* a profile has been written */
    EVENT_FAILED,   /* none could be taken */
    EVENT_ENDED,    /* the process has ended */
    EVENT_WAITING,  /* for a process of that name */
    EVENT_STOPPED,  /* the watch ends */
};

struct event {
    enum event_kind kind;
    const char *name; /* of the process, or what is waited for */
    int pid;          /* 0: none */
    const struct rules *rules;
    unsigned fired;                       /* PROFILE, FAILED: which of the rules */
    const struct measures *measures;      /* NULL: nothing was measured */
    const char *path;                     /* PROFILE */
    uint64_t bytes;                       /* PROFILE: of the file */
    bool empty;                           /* PROFILE: it holds no sample */
    unsigned removed;                     /* PROFILE: older files, for --keep */
    const struct injection_summary *held; /* PROFILE */
    const char *cause;                    /* FAILED, STOPPED */
    uint64_t retry_ns;                    /* FAILED */
    const struct watch_start *start;      /* WATCHING */
    unsigned made;                        /* ENDED, STOPPED: profiles of this process */
};

/* How a watch begins. */
struct watch_start {
    bool active, switched; /* prof.active, and whether --on has made it so */
    unsigned most;         /* profiles of one process */
    const char *directory;
    uint64_t rss, locked; /* of the tool, bytes */
    int lock_err;         /* why nothing is locked; 0: it is */
};

/* FAULT_OUTPUT if stdout takes no more. */
fault_code event_tell(const struct options *options, const struct event *event,
                      struct fault *fault);
