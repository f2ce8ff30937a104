/*
 * Names for addresses, from a confined child that reads the files (profile/symbols/child.h). If
 * the child crashes, or uses too much memory or time, it is started again with less trust in the
 * module that it was reading, and the other modules keep their names.
 */
#pragma once

#include "base/arena.h"
#include "host/confined.h"
#include "profile/symbols/child.h"
#include "profile/symbols/module_symbols.h"

#include <signal.h>

struct deadline;

#define READER_BYTES_MAX (192ull << 20) /* bytes of all names and lines together */

/* What the child's answers are given to; the texts live as long as the arena. */
struct reader_client {
    void (*lines)(void *ctx, size_t number, const struct symbol_line *lines, size_t count);
    void (*state)(void *ctx, const struct channel_state *state, const char *split_path);
    void (*name)(void *ctx, size_t number, const char *name); /* NULL: it is not mangled */
    struct file_opener opener;
    void *ctx;
};

/* Why the child has ended without an answer. */
enum reader_end {
    READER_DONE, /* it has answered */
    READER_CRASHED,
    READER_MEMORY,
    READER_TIME,        /* it needs too much for one answer, or sleeps */
    READER_WRONG,       /* an answer is malformed */
    READER_INTERRUPTED, /* Ctrl-C, or the deadline */
    READER_NONE,        /* it could not be started */
};

/* All zero: not started. */
struct reader {
    struct child_module *modules; /* owned by the caller */
    size_t module_count;
    const struct reader_client *client;
    const struct deadline *deadline; /* NULL: none */
    sig_atomic_t interrupted;        /* signals that came before the present question */
    struct arena *arena;             /* for the texts */
    struct confined child;
    struct channel_buffer in;
    const char **texts;
    size_t text_count, text_capacity;
    uint64_t bytes;     /* of all texts and lines that were received */
    uint64_t asks;      /* files that were opened for it */
    unsigned deaths;    /* of children that demangled */
    uint64_t wasted_ns; /* of slow answers, and of those that never came: CPU time, and sleep */
};

/*
 * Asks for the lines of addresses. *answered counts the answers, also of earlier calls. After
 * READER_CRASHED, READER_MEMORY, READER_TIME and READER_WRONG the next call starts another child,
 * which trusts the modules as they are then.
 */
enum reader_end reader_lines(struct reader *reader, const struct channel_address *list,
                             size_t count, size_t *answered);
/*
 * Returns the demangled name, in the arena, or the name itself if it is not mangled, or if the
 * child ended over it.
 */
const char *reader_demangle(struct reader *reader, const char *name);
void reader_end(struct reader *reader);

/* An exchange with the child: a question, and how far it has been answered. */
struct exchange {
    struct reader *reader;
    enum channel_kind asked;
    size_t count;     /* of answers that are due, also of earlier exchanges */
    size_t *answered; /* so far */
    bool done;
    size_t seen;       /* answers at the last look at the child */
    uint64_t cpu_ns;   /* CPU time, its own and the tool's, when an answer was last seen */
    uint64_t slept_ns; /* the child's */
    uint64_t seen_at;  /* and when that was */
    uint64_t look_at;  /* when it is looked at again */
};

/* Takes what the child has sent. False: it is malformed. */
bool reader_hear(struct exchange *exchange, const void *bytes, size_t len);
