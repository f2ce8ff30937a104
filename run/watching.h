/* One process under watch: looked at again and again, with a profile when a rule fires. */
#pragma once

#include "cli/output/watch_event.h"
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

struct watching {
    const struct options *options;
    struct options quiet; /* the same, for attachments: the events are told here */
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
 * Opens the process for profiles, says whether it can profile, and switches it
 * on if that was asked for. The rules begin anew.
 */
fault_code watching_open(struct watching *watching, pid_t pid);
/* Looks until something else comes of it than COURSE_ON. */
enum course watching_run(struct watching *watching);
/*
 * Gives prof.active back, if that is owed to a process that still is; rc is
 * what went wrong, which is said. Returns the exit code.
 */
int watching_close(struct watching *watching, fault_code rc);
/* The same of a process that is gone: nothing is owed. */
void watching_leave(struct watching *watching);

/* An event of this process; FAULT_OUTPUT is COURSE_FAILED, else next. */
struct event watching_event(const struct watching *watching, enum event_kind kind);
enum course watching_tell(struct watching *watching, const struct event *event, enum course next);
/* EVENT_FAILED with the present fault; fired 0: by no rule. */
enum course watching_tell_failed(struct watching *watching, unsigned fired, uint64_t retry_ns);
