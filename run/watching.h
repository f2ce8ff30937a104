/* One process under watch: looked at again and again, with a profile when a rule fires. */
#pragma once

#include "run/capture.h"
#include "run/meter.h"
#include "run/sampling.h"

/* How it goes on. */
enum course {
    COURSE_ON,          /* it is watched */
    COURSE_ENDED,       /* it has ended */
    COURSE_EXECED,      /* it is another program now */
    COURSE_FULL,        /* it has all profiles that it may have */
    COURSE_INTERRUPTED, /* SIGTERM, Ctrl-C */
    COURSE_FAILED,      /* watching.fault: there is no use in going on */
};

enum watch_event_kind {
    EVENT_WATCHING, /* a process is watched from now on */
    EVENT_PROFILE,  /* a profile has been written */
    EVENT_FAILED,   /* none could be taken */
    EVENT_ENDED,    /* the process has ended */
    EVENT_WAITING,  /* for a process of that name */
    EVENT_STOPPED,  /* the watch ends */
};

/* How a watch begins. */
struct watch_start {
    bool active, switched; /* prof.active, and whether the watch has switched it on */
    unsigned most;         /* profiles of one process */
    const char *directory;
    uint64_t rss, locked; /* of the tool, bytes */
    int lock_err;         /* why nothing is locked; 0: it is */
};

struct watch_event {
    enum watch_event_kind kind;
    const char *name; /* of the process, or what is waited for */
    int pid;          /* 0: none */
    const struct rules *rules;
    unsigned fired;                       /* PROFILE, FAILED: which of the rules */
    const struct measures *measures;      /* NULL: nothing was measured */
    const char *path;                     /* PROFILE */
    uint64_t bytes;                       /* PROFILE: of the file */
    bool empty;                           /* PROFILE: it holds no sample */
    unsigned removed;                     /* PROFILE: older files, beyond `keep` */
    const struct injection_summary *held; /* PROFILE */
    const struct fault *fault;            /* FAILED */
    enum course course;                   /* STOPPED: why */
    uint64_t retry_ns;                    /* FAILED */
    const struct watch_start *start;      /* WATCHING */
    unsigned made;                        /* ENDED, STOPPED: profiles of this process */
};

struct watch_request {
    struct attach_request attach; /* pid and pin: of the process that is opened next */
    const char *directory;        /* of the profiles */
    unsigned most;                /* profiles of one process */
    unsigned keep;                /* profiles of its name in the directory; 0: 10 */
    bool on;                      /* switch profiling on while it is watched */
    /* Reports an event; a fault ends the watch. */
    fault_code (*report)(void *ctx, const struct watch_event *event, struct fault *fault);
    void *ctx;
};

struct watching {
    struct watch_request request;
    struct rules rules;
    struct attachment attachment;
    bool attached, metered;
    struct meter meter;
    struct measures measures; /* the last measures */
    struct sampling sampling;
    struct capture capture; /* its room is kept from one profile to the next */
    struct watch_start start;
    unsigned made; /* profiles of this process */
    struct fault fault;
};

/* Makes room for a profile before there is none; false: out of memory. */
bool watching_reserve(struct watching *watching);

/*
 * Opens the process of request.attach for profiles, checks that it can profile,
 * and switches that on if it is requested. The rules begin anew.
 */
fault_code watching_open(struct watching *watching);
/* Looks until something else comes of it than COURSE_ON. */
enum course watching_run(struct watching *watching);
/*
 * Stops measuring. True if the attachment was open: then sampling_settle,
 * unless the process is gone, and attachment_close.
 */
bool watching_stop(struct watching *watching);

/* An event of this process; a fault of the report is COURSE_FAILED, else next. */
struct watch_event watching_event(const struct watching *watching, enum watch_event_kind kind);
enum course watching_report(struct watching *watching, const struct watch_event *event,
                            enum course next);
/* EVENT_FAILED with the present fault; fired 0: by no rule. */
enum course watching_report_failed(struct watching *watching, unsigned fired, uint64_t retry_ns);
