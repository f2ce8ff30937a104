/*
 * The last complete profile of a process that may end at any moment, by SIGKILL or the OOM killer:
 * its text as it would be written, with the mappings of its time, in the tool's memory.
 *
 * It is read again and again, from memory alone, for a tenth of the time at most. While one is
 * read, the former one is kept.
 */
#pragma once

#include "run/sampling.h"

enum { LAST_READ_PERCENT = 10 };

#define LAST_NEVER   UINT64_MAX
#define LAST_STEP_NS ((uint64_t)1000000000)

struct last_profile_request {
    uint64_t step_ns; /* between two, at least */
    unsigned percent; /* of the time, for reads of memory */
    bool names;       /* keeps the files open that names need: they are in attachment->kept_files */
};

struct last_profile {
    struct last_profile_request request;
    struct capture kept, next;  /* kept.taken: it is complete */
    uint64_t at_ns;             /* CLOCK_MONOTONIC when kept was begun */
    uint64_t rss;               /* bytes, of the target at that time; 0: unknown */
    struct reading reading;     /* of that one */
    uint64_t began_ns, next_ns; /* CLOCK_MONOTONIC; next_ns may be LAST_NEVER */
    uint64_t cost_ns;           /* of the last one */
    unsigned failed;            /* since the last one that was kept */
    fault_code noted;           /* why none could be kept, as last reported */
    struct fault ended;         /* code: the process was found to have ended; else FAULT_NONE */
};

/* Nothing is kept before last_profile_plan. */
void last_profile_init(struct last_profile *last);
void last_profile_free(struct last_profile *last);

/*
 * Before a profile of the run's own: gives up the one that is kept, if there is too little memory
 * for both.
 */
void last_profile_make_room(struct last_profile *last, const struct attachment *attachment);
/* Keeps none yet, and plans the first one. cost_ns: of a profile that was taken before; 0: none
 * was. */
void last_profile_plan(struct last_profile *last, const struct last_profile_request *request,
                       uint64_t cost_ns);
/*
 * Takes one, after attachment_rest, and plans the next. None is begun that would not end by until
 * (CLOCK_MONOTONIC). A failure leaves the former one; if its cause is the end of the process,
 * last->ended is set.
 */
void last_profile_take(struct last_profile *last, struct attachment *attachment, uint64_t until);
/* Forgets the one that is kept, because a later one has been written, and plans the next. */
void last_profile_restart(struct last_profile *last);

/*
 * sampling_wait, and meanwhile takes profiles when they are due. PAUSE_ENDED also if the process is
 * another program now; then last_profile_lost.
 */
enum pause_end last_profile_wait(struct last_profile *last, struct attachment *attachment,
                                 struct sampling *sampling, enum run_activity activity,
                                 uint64_t until, struct trigger *trigger);
/* After PAUSE_ENDED: as sampling_lost. */
fault_code last_profile_lost(const struct last_profile *last, const struct attachment *attachment,
                             struct fault *fault);

/*
 * After the end of the process: gives the kept profile to the capture, which the caller frees.
 * Returns its age in ns; 0: none is kept.
 */
uint64_t last_profile_use(struct last_profile *last, struct capture *capture);
