/* A heap profile on its way from jemalloc's text to an output in some format. */
#pragma once

#include "jemalloc/sink.h"
#include "profile/views/display.h"
#include "run/events.h"
#include "run/format.h"
#include "run/output.h"

/* The text of a profile, and how its addresses get names. */
struct present_source {
    struct sink *text; /* NULL: parsed is set */
    const struct symbols_options *symbols;
    uint64_t time_ns;   /* of the dump, CLOCK_REALTIME; 0: unknown */
    uint64_t moment_ns; /* of any clock, for the distances in a series; 0: time_ns */
    const char *name;   /* of its file, for faults; NULL: none */
    bool adds;          /* the last ones: their amounts are added to those of the first */
    /* Only between two others of the same process; has the mappings and names of the newest. */
    const struct heap_profile *parsed;
};

struct presentation {
    enum format format;
    struct display display;
    struct samples_options samples; /* its filter may point into regexes */
    bool no_inlines, debuginfod;    /* for the names of a target's addresses */
    uint64_t until;                 /* CLOCK_MONOTONIC ns, when names are given up; 0: never */
    regex_t regexes[4];             /* freed by presentation_free */
    size_t regex_count;
    char title[256], command[256];   /* command: for display.command */
    bool cut_short;                  /* the process ended: the title says so */
    bool terse;                      /* no notes: an earlier profile had the same ones */
    const struct run_events *events; /* NULL: none */
    /*
     * Called with the samples after the output is written, also without an
     * output. Returns false if out of memory. NULL: none.
     */
    bool (*also)(const struct samples *samples, const struct display *display, void *ctx);
    void *also_ctx;
    /*
     * Called with the samples of a comparison before anything is written: bounds their trends
     * (profile/judged.h). of_stack: the sample of each of the stacks, which have the mappings and
     * names of the newest profile. Returns false if out of memory. NULL: none.
     */
    bool (*judge)(struct samples *samples, const uint32_t *of_stack, size_t stacks, void *ctx);
    void *judge_ctx;
    const struct heap_profile *stacks; /* NULL: none; without amounts */
    char dot[4096];                    /* path of the program dot, for FORMAT_SVG */
};

void presentation_free(struct presentation *presentation);

/*
 * Writes the profile sources[0], minus sources[1] unless count is 1, in the
 * format; the output is then complete. Further sources are of the time between
 * the two, in its order: they show how much of the growth is noise
 * (profile/trend.h). If output is NULL, only presentation->also is called.
 * Releases the texts of the sources as soon as they are not needed.
 */
fault_code present(const struct presentation *presentation, const struct present_source *sources,
                   size_t count, struct output *output, struct fault *fault);

/*
 * Notes of which modules the files were not read to their end, and why; also, with samples, which
 * others lack names that matter.
 */
void present_coverage(const struct run_events *events, const struct symbols *symbols,
                      const struct samples *samples);
