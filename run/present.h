/*
 * A heap profile in the form that the operator asked for: what the options say
 * of it, and the way from jemalloc's text to the output.
 */
#pragma once

#include "cli/options.h"
#include "jemalloc/sink.h"
#include "profile/display.h"
#include "run/output.h"

enum format {
    FORMAT_RAW,        /* as jemalloc writes it */
    FORMAT_SYMBOLIZED, /* the same, with names for jeprof */
    FORMAT_TEXT,
    FORMAT_FOLDED,
    FORMAT_PPROF,
    FORMAT_FLAME,
    FORMAT_DOT,
    FORMAT_SVG,  /* the graph of FORMAT_DOT, drawn by Graphviz */
    FORMAT_JSON, /* what the table shows, and the largest stacks */
};

/* One profile's text, and where its binaries are. */
struct present_source {
    struct sink *text;
    const struct symbols_options *symbols;
    uint64_t time_ns; /* of the dump, since 1970; 0: unknown */
};

struct presentation {
    const struct options *options;
    enum format format;
    struct display display;
    struct samples_options samples;
    regex_t regexes[4];
    size_t regex_count;
    char title[256];
    bool terse; /* says nothing of what is missing: it was said of another profile */
    /*
     * Called with the samples when the output has been written, or when there
     * is none; false: out of memory. NULL: nothing else is made of them.
     */
    bool (*also)(const struct samples *samples, const struct display *display, void *ctx);
    void *also_ctx;
    char dot[4096]; /* the program of Graphviz */
};

/*
 * Takes what the options say, before anything is touched; false after a
 * message about what is wrong. fallback is the format where neither -f nor the
 * output's name tells one. presentation_free in each case.
 */
bool presentation_init(struct presentation *presentation, const struct options *options,
                       enum format fallback);
void presentation_free(struct presentation *presentation);
/* Of files in its format: ".heap" */
const char *presentation_extension(const struct presentation *presentation);

/*
 * Writes the profile, less base unless it is NULL, in the format; the output
 * is then complete. output NULL: presentation->also alone. The sources' texts are released as soon
 * as they are not needed any more.
 */
fault_code present(const struct presentation *presentation, const struct present_source *profile,
                   const struct present_source *base, struct output *output, struct fault *fault);
