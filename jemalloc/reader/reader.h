/*
 * Reads the heap profile of a process from its memory, as prof.dump would write
 * it: without a call, without stopping a thread, without a lock. Works on
 * processes that can make no call, and on core files.
 *
 * The structures are those of src/prof.c and src/prof_data.c. Their layout is
 * chosen by the version and then proven on the data (reader/layout.h); a profile
 * that cannot be proven is refused, never guessed.
 */
#pragma once

#include "base/interruptions.h"
#include "jemalloc/facts.h"
#include "jemalloc/reader/layout.h"
#include "jemalloc/sink.h"

/* What a profile is read from: a process, or a core file. All of it must outlive the reader. */
struct reader_source {
    const struct instance *instance;
    const struct modules *modules;
    const struct target *target;
    struct memory *memory;
    bool is_still;                   /* nothing changes: a core file, a stopped process */
    const struct deadline *deadline; /* NULL: none */
    unsigned attempts; /* reads, of which the quickest is taken; 0: the usual number */
};

struct reader {
    struct reader_source source;
    struct fact_variables variables;
    const struct reader_layout *layout;
    enum fact unbias;    /* what the options set it to, where its variable is unknown */
    remote_addr stacks;  /* address of bt2gctx */
    remote_addr threads; /* address of tdatas; 0: not found, because there are no threads yet */
};

/* One profile. */
struct reading {
    size_t stacks;    /* written */
    size_t threads;   /* written */
    size_t unsettled; /* stacks that changed during each attempt to read them; not written */
    uint64_t ns;      /* time that the reads took */
    uint64_t time_ns; /* CLOCK_REALTIME at their start */
};

/* Values of fault.reason of FAULT_UNREADABLE. */
enum unreadable_reason {
    UNREADABLE_VERSION,  /* no layout is known for this version */
    UNREADABLE_TABLE,    /* the table of stacks was not found, or not only one */
    UNREADABLE_PROOF,    /* the data do not have the layout */
    UNREADABLE_PERIOD,   /* the sampling period is unknown */
    UNREADABLE_CHANGING, /* it changed during each attempt */
    UNREADABLE_MISSING,  /* memory that is needed could not be read */
    UNREADABLE_PINNED,   /* it is too much to be read without /proc/PID/mem */
};

/*
 * Finds the profile. FAULT_PROF_ABSENT, FAULT_PROF_DISABLED: this process has
 * none. FAULT_UNREADABLE: it cannot be proven; fault.what says what was seen.
 */
fault_code reader_open(struct reader *reader, const struct reader_source *source,
                       struct fault *fault);

/*
 * Reads the profile and appends it to the sink, as text in the format of
 * prof.dump (heap_v2) up to the title MAPPED_LIBRARIES, after which dump_complete
 * adds the mappings. Can be repeated. FAULT_TOO_LARGE: it does not fit.
 */
fault_code reader_read(struct reader *reader, struct sink *sink, struct reading *reading,
                       struct fault *fault);

void reader_close(struct reader *reader);

/* ---- for the parts of the reader ---- */

/* What one source of options sets opt.prof_unbias to, "prof:true,prof_unbias:false"; the last one
 * counts. */
enum fact bias_option(const char *options);

/* FAULT_TOO_LATE, FAULT_INTERRUPTED: the deadline of its source has passed, the operator stops. */
fault_code reader_check_time(const struct reader *reader, struct fault *fault);
/* Set FAULT_UNREADABLE, FAULT_INTERNAL. */
fault_code reader_unreadable(struct fault *fault, enum unreadable_reason reason, const char *what);
fault_code reader_out_of_memory(struct fault *fault);
