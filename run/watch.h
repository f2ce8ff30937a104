/*
 * A whole watch: of one process, or of each process in turn that a selector matches. Measures it
 * repeatedly, and writes a profile, starts a command, or both, when a rule fires.
 */
#pragma once

#include "run/command.h"
#include "run/follow.h"
#include "run/last_profile.h"
#include "run/meter.h"

/* How a watch continues. */
enum course {
    COURSE_ON,          /* watching */
    COURSE_ENDED,       /* the process has ended */
    COURSE_EXECED,      /* the process is another program now */
    COURSE_FULL,        /* request.most profiles are written */
    COURSE_INTERRUPTED, /* SIGTERM, Ctrl-C */
    COURSE_FAILED,      /* cannot continue: watching.fault */
};

enum watch_event_kind {
    EVENT_WATCHING, /* started to watch a process */
    EVENT_PROFILE,  /* a profile has been written */
    EVENT_ALARM,    /* a rule has fired, and no profile was asked for */
    EVENT_COMMAND,  /* the command has failed */
    EVENT_FAILED,   /* no profile could be taken */
    EVENT_RESTORED, /* prof.active was switched off by another program, and on again */
    EVENT_ENDED,    /* the process has ended */
    EVENT_WAITING,  /* for a process that matches */
    EVENT_STOPPED,  /* the watch ends */
};

/* The state at the start of a watch. */
struct watch_start {
    enum fact active;      /* prof.active; unknown with WAY_MEMORY, if memory does not show it */
    bool switched;         /* the watch has switched it on */
    unsigned most;         /* profiles of one process */
    const char *directory; /* NULL: of no profiles */
    uint64_t rss, locked;  /* of the tool, bytes */
    int lock_err;          /* why nothing is locked; 0: it is */
};

struct watch_event {
    enum watch_event_kind kind;
    const char *name; /* of the process, or what a search waits for */
    int pid;          /* 0: none */
    const struct rules *rules;
    struct command_end command;      /* COMMAND */
    unsigned fired;                  /* PROFILE, ALARM, FAILED: bit i is rule i */
    const struct measures *measures; /* NULL: not measured */
    const char *path;                /* PROFILE */
    uint64_t bytes;                  /* PROFILE: of the file */
    bool empty;                      /* PROFILE: it holds no sample */
    uint64_t age_ns;  /* PROFILE: the process ended, and it was read so long before; 0: it lives */
    unsigned removed; /* PROFILE: older files that were removed for `keep` */
    const struct injection_summary *held; /* PROFILE, by a call */
    const struct reading *read;           /* PROFILE, from memory; NULL: by a call */
    const struct fault *fault;            /* FAILED; RESTORED: it is still off; NULL: it is on */
    unsigned restored;                    /* RESTORED: how often since the last such event */
    enum course course;                   /* STOPPED: why */
    uint64_t retry_ns;                    /* FAILED */
    const struct watch_start *start;      /* WATCHING */
    bool alarms;                          /* there are no profiles */
    unsigned made;                        /* ENDED, STOPPED: profiles or alarms of this process */
};

struct watch_request {
    struct attach_request attach; /* with pid and pin of the process that is opened next */
    const char *directory;        /* of the profiles; NULL: none, and any process is watched */
    const char *command;          /* for each profile or alarm; NULL: none */
    int mode;                     /* of the profiles: output_set_mode */
    unsigned most;                /* profiles of one process */
    unsigned keep;                /* profiles with its name to keep in the directory; 0: 10 */
    bool on;                      /* keep profiling switched on while it is watched */
    /* Reports an event; a fault ends the watch. */
    fault_code (*report)(void *ctx, const struct watch_event *event, struct fault *fault);
    /*
     * Both close the attachment. finish restores prof.active before, and
     * reports rc, if it is a fault; it returns false if anything failed. leave
     * is for a process that is gone. NULL: the same without a report.
     */
    bool (*finish)(void *ctx, fault_code rc);
    void (*leave)(void *ctx);
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
    unsigned kept_reported; /* of sampling.kept */
    bool seen; /* with request.on: prof.active is a byte that can be read at any time */
    uint64_t kept_next, kept_tell_next; /* CLOCK_MONOTONIC ns: of the next attempt, and report */
    struct capture capture;             /* its memory is kept from one profile to the next */
    struct last_profile last;
    struct watch_start start;
    struct command command;
    unsigned made; /* profiles or alarms of this process */
    struct fault fault;
};

struct watch {
    struct watching watching; /* with the request and the rules */
    const char *wanted;       /* what is searched for, for EVENT_WAITING */
    bool endless;             /* after request.most profiles, wait for the next process */
    struct follow follow;     /* for watch_matching */
    struct target_pin former; /* the process before; its pidfd is not used */
    unsigned failures;        /* consecutive, to open the same process */
    bool patient;             /* a failure is retried, as a process may just be starting */
};

/* Reserves memory for a profile in advance; false: out of memory. */
bool watching_reserve(struct watching *watching);

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
