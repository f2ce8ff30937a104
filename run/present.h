/* A heap profile on its way from jemalloc's text to an output in some format. */
#pragma once

#include "jemalloc/sink.h"
#include "profile/views/display.h"
#include "run/events.h"
#include "run/format.h"
#include "run/output.h"

/* The text of a profile. */
struct present_source {
    struct sink *text;  /* NULL: parsed is set */
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
    char title[256], command[256];     /* command: for display.command */
    bool cut_short;                    /* the process ended: the title says so */
    bool terse;                        /* no notes: an earlier profile had the same ones */
    const struct run_events *events;   /* NULL: none */
    const struct heap_profile *stacks; /* of a comparison, without amounts; NULL: none */
    char dot[4096];                    /* path of the program dot, for FORMAT_SVG */
};

void presentation_free(struct presentation *presentation);

/* A profile between its text and its samples. */
struct present_part {
    struct present_source source;
    struct heap_profile profile; /* with source.parsed: borrowed, with the mappings of another */
    struct symbols *symbols;     /* NULL: those of the first part */
};

/* The named samples of the sources. */
struct presented {
    const struct presentation *presentation;
    struct display display; /* of the presentation, with what is in doubt */
    struct samples samples;
    const struct sink *text;    /* of the newest, which FORMAT_RAW is */
    struct present_part *parts; /* of each source */
    size_t count;
    /*
     * The sample of each of presentation->stacks, which have the mappings and names of the newest
     * profile: for a judge of their trends (profile/judged.h).
     */
    uint32_t *of_stack;
    size_t stack_count;
    int interrupted; /* signals that had come before */
};

/*
 * Makes the samples of the profile sources[0], minus sources[1] unless count is 1. Further sources
 * are of the time between the two, in its order: they show how much of the growth is noise
 * (profile/trend.h). Releases the texts as soon as the format does not need them; FORMAT_RAW needs
 * no samples. The presentation, texts and parsed profiles must outlive it. present_free in each
 * case.
 */
fault_code present_read(struct presented *presented, const struct presentation *presentation,
                        const struct symbols_options *symbols, const struct present_source *sources,
                        size_t count, struct fault *fault);
/*
 * Writes them in the format and completes the output, unless that is NULL. FAULT_INTERRUPTED: a
 * signal has come since present_read began.
 */
fault_code present_write(const struct presented *presented, struct output *output,
                         struct fault *fault);
/* Reports what there is to note, behind the answer. */
void present_notes(const struct presented *presented);
void present_free(struct presented *presented);
/* All three, where rc is what present_read has returned. Returns the first fault. */
fault_code present_end(struct presented *presented, fault_code rc, struct output *output,
                       struct fault *fault);

/*
 * Notes of which modules the files were not read to their end, and why; also, with samples, which
 * others lack names that matter.
 */
void present_coverage(const struct run_events *events, const struct symbols *symbols,
                      const struct samples *samples);
