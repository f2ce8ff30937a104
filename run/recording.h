/* Profiles of one process while it is sampled, written to files one after the other. */
#pragma once

#include "run/sampling.h"

/* A profile that was written. */
struct recorded {
    char *path;
    uint64_t bytes, time_ns;
    dev_t dev;
    ino_t ino;
    bool removed; /* again, for `keep` */
};

struct recording_request {
    const char *template; /* of the names of the files (run/filename.h); "-": stdout */
    bool may_number;      /* a name that is taken gets a number; else only if it is expanded */
    uint64_t every_ns;    /* between profiles */
    uint64_t duration_ns; /* until the last one; UINT64_MAX: until it is interrupted */
    unsigned count, keep; /* profiles to take, and to leave; 0: all */
    struct presentation *presentation;
    /* Called after each profile. NULL: nothing is. */
    void (*written)(void *ctx, const struct recorded *recorded);
    void *ctx;
};

struct recording {
    struct recording_request request;
    struct attachment *attachment;
    struct sampling sampling;
    struct capture capture;
    struct output output;
    char *last_name; /* before its number, which the next of the same name goes on from */
    unsigned last_number;
    uint64_t until; /* the last profile at most */
    struct recorded *list;
    size_t count;
    bool too_slow;
};

/* What the request and the attachment point to must outlive it; recording_free in each case. */
void recording_init(struct recording *recording, const struct recording_request *request,
                    struct attachment *attachment);
void recording_free(struct recording *recording);

/* Opens the output, switches on, takes all profiles. sampling_settle in each case. */
fault_code recording_run(struct recording *recording, struct fault *fault);
