/* A heap profile on its way from jemalloc's text to an output in some format. */
#pragma once

#include "jemalloc/sink.h"
#include "profile/display.h"
#include "run/events.h"
#include "run/format.h"
#include "run/output.h"

/* One profile's text, and where its binaries are. */
struct present_source {
    struct sink *text;
    const struct symbols_options *symbols;
    uint64_t time_ns; /* of the dump, since 1970; 0: unknown */
};

struct presentation {
    enum format format;
    struct display display;
    struct samples_options samples; /* its filter may point into regexes */
    bool no_inlines, debuginfod;    /* for the names of a target's addresses */
    regex_t regexes[4];             /* freed by presentation_free */
    size_t regex_count;
    char title[256];
    bool terse;                      /* reports nothing: it was reported of another profile */
    const struct run_events *events; /* NULL: none */
    /*
     * Called with the samples when the output has been written, or when there
     * is none; false: out of memory. NULL: nothing else is made of them.
     */
    bool (*also)(const struct samples *samples, const struct display *display, void *ctx);
    void *also_ctx;
    char dot[4096]; /* the program of Graphviz, for FORMAT_SVG */
};

void presentation_free(struct presentation *presentation);

/*
 * Writes the profile, less base unless it is NULL, in the format; the output
 * is then complete. output NULL: presentation->also alone. The sources' texts are released as soon
 * as they are not needed any more.
 */
fault_code present(const struct presentation *presentation, const struct present_source *profile,
                   const struct present_source *base, struct output *output, struct fault *fault);
