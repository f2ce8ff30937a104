/* Samples one process and writes one or more profiles to files. */
#pragma once

#include "run/last_profile.h"

/* Why a profile was taken. GONE: it is the last one before the end of the process. */
enum recorded_why { RECORDED_END, RECORDED_TIME, RECORDED_BYTES, RECORDED_PEAK, RECORDED_GONE };

/* A profile that has been written. */
struct recorded {
    char *path;
    uint64_t bytes, time_ns;
    enum recorded_why why;
    uint64_t rss;       /* bytes, of the target when it was due; 0: unknown */
    uint64_t allocated; /* bytes since the start; 0 unless request.trigger.bytes is set */
    uint64_t age_ns;    /* GONE: so long before the end was seen */
    dev_t dev;
    ino_t ino;
    bool removed; /* later, because of `keep` */
};

struct recording_request {
    const char *template; /* of the file names (run/filename.h); "-": stdout */
    bool made_up;         /* the operator gave no name, or only a directory */
    bool may_number;      /* add a number if the name is taken; always so if it has directives */
    bool replace;         /* the file may exist, if its name is fixed */
    int mode;             /* of the files: output_set_mode */
    uint64_t every_ns;    /* between profiles; unless trigger is set */
    struct trigger_request trigger;
    uint64_t duration_ns; /* until the last profile; UINT64_MAX: until interrupted */
    unsigned count, keep; /* profiles to take, and files to keep; 0: no limit */
    struct presentation *presentation;
    /* Called after each profile; NULL: none. */
    void (*written)(void *ctx, const struct recorded *recorded);
    void *ctx;
};

struct recording {
    struct recording_request request;
    struct attachment *attachment;
    struct sampling sampling;
    struct trigger trigger;
    struct capture capture;
    struct last_profile last;
    struct output output;
    enum recorded_why why; /* the next profile is taken */
    char *last_name;       /* without its number, from which the next file of that name continues */
    unsigned last_number;
    uint64_t until; /* CLOCK_MONOTONIC ns: time of the last profile */
    struct recorded *list;
    size_t count;
    bool too_slow;
};

/* Pointers in the request must stay valid until recording_free. */
void recording_init(struct recording *recording, const struct recording_request *request,
                    struct attachment *attachment);
void recording_free(struct recording *recording);

/*
 * Opens the output, switches profiling on and takes all profiles. Then sampling_settle. With
 * trigger.percent there is no profile at the end, which would not show a peak, unless it
 * would be the only one.
 *
 * If the process ends meanwhile, writes the last profile that could be read of it, unless a later
 * one is written already; then too the result is the fault of the end. A name that is made up
 * says that it is cut short.
 */
fault_code recording_run(struct recording *recording, struct fault *fault);
