/*
 * A fault: what went wrong, as data.
 *
 * Only cli/ has words. Every other layer returns a code and fills a struct
 * fault with the errno, the stage, the object and the reason.
 *
 * Each layer declares its codes in its own faults.h; a code belongs to the
 * lowest layer that uses it. The number of a code contains its class, so that
 * the declarations are the one table of what a fault means for a second attempt.
 */
#pragma once

#include <stdbool.h>

/* FAULT_NONE, or a code of some layer's faults.h. */
typedef int fault_code;

/* What a fault means for a second attempt. */
enum fault_class {
    FAULT_CLASS_OTHER,      /* nothing: the tool's own trouble, or an operation that was refused */
    FAULT_CLASS_GONE,       /* the process has ended, or is another program now */
    FAULT_CLASS_TRANSIENT,  /* nothing was called; the same may succeed a moment later */
    FAULT_CLASS_DENIED,     /* nothing was called, nor will be with these rights and this state */
    FAULT_CLASS_ABSENT,     /* there is nothing to work on; it may appear later */
    FAULT_CLASS_PERMANENT,  /* it stays so for as long as the process lives */
    FAULT_CLASS_UNFINISHED, /* a call may still be running in the target */
    FAULT_CLASS_OUTPUT,     /* the tool's own output could not be written */
};

enum fault_layer {
    FAULT_IN_BASE = 1,
    FAULT_IN_HOST,
    FAULT_IN_ATTACH,
    FAULT_IN_ELF,
    FAULT_IN_INJECT,
    FAULT_IN_JEMALLOC,
    FAULT_IN_PROFILE,
    FAULT_IN_RUN,
    FAULT_IN_CLI,
};

/* Or-ed to a code: it may concern one thread only, and another thread of the process may do. */
enum { FAULT_OF_THREAD = 1 << 8 };

/* The first code of a layer and a class; the enumerators after it are counted up from there. */
#define FAULT_FIRST(layer, class) (FAULT_IN_##layer << 16 | FAULT_CLASS_##class << 12)

enum {
    FAULT_NONE = 0,

    FAULT_INTERNAL = FAULT_FIRST(BASE, OTHER), /* a bug, or the tool's host refused it something */
    FAULT_TOO_LARGE,                           /* larger than a limit that the tool sets itself */
};

struct fault {
    fault_code code;
    int err;           /* errno, or the return code of an injected call; 0: none */
    int reason;        /* which cause, where several share the code: attach/faults.h; 0: none */
    const char *stage; /* what was being done, static text: "seize", "read maps" */
    char what[256];    /* the object: a path, a name, a thread */
    int pid;           /* a second process that matters: the other tracer; 0: none */
};

/*
 * Fills *fault (unless it is NULL), without a reason, and returns code, so that a
 * caller can write: return fault_set(f, FAULT_GONE, ESRCH, "seize", "thread %d", tid);
 */
__attribute__((format(printf, 5, 6))) fault_code fault_set(struct fault *fault, fault_code code,
                                                           int err, const char *stage,
                                                           const char *fmt, ...);

/* Sets the reason of a fault that fault_set has filled (unless fault is NULL). */
static inline void fault_set_reason(struct fault *fault, int reason)
{
    if (fault)
        fault->reason = reason;
}

static inline enum fault_class fault_class_of(fault_code code)
{
    return (enum fault_class)(code >> 12 & 15);
}

/* True if the process has ended, or is another program now. */
static inline bool fault_is_gone(fault_code code)
{
    return fault_class_of(code) == FAULT_CLASS_GONE;
}

/* True if nothing was called and the same may succeed a moment later. */
static inline bool fault_is_transient(fault_code code)
{
    return fault_class_of(code) == FAULT_CLASS_TRANSIENT;
}

/* True if there was nothing to work on, which may appear later. */
static inline bool fault_is_absent(fault_code code)
{
    return fault_class_of(code) == FAULT_CLASS_ABSENT;
}

/* True if no attempt can succeed for as long as the process lives. */
static inline bool fault_is_permanent(fault_code code)
{
    return fault_class_of(code) == FAULT_CLASS_PERMANENT;
}

/* True if a call may still be running in the target: never to be taken for "nothing happened". */
static inline bool fault_is_unfinished(fault_code code)
{
    return fault_class_of(code) == FAULT_CLASS_UNFINISHED;
}

/* True if the tool's own output could not be written. */
static inline bool fault_is_output(fault_code code)
{
    return fault_class_of(code) == FAULT_CLASS_OUTPUT;
}

/* True if the fault may concern one thread only. */
static inline bool fault_is_of_thread(fault_code code)
{
    return code & FAULT_OF_THREAD;
}

/* True if the fault may be a mere symptom of the target's end, before or after any call. */
static inline bool fault_may_be_end(fault_code code)
{
    enum fault_class class = fault_class_of(code);

    return code == FAULT_INTERNAL || class == FAULT_CLASS_TRANSIENT ||
           class == FAULT_CLASS_DENIED || class == FAULT_CLASS_ABSENT;
}
