/*
 * A fault: what went wrong, as data.
 *
 * A function that fails returns a code and fills a struct fault with the errno,
 * the stage, the object and the reason. cli/fault_table.c has the words.
 *
 * Each layer declares its codes in its own faults.h; a code is declared in the
 * lowest layer that uses it. The number of a code contains its class, so the
 * declarations are the only place that says what a fault means for a second
 * attempt; the functions below read the class.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>

/* FAULT_NONE, or a code of some layer's faults.h. */
typedef int fault_code;

/* The meaning of a fault for a second attempt. */
enum fault_class {
    FAULT_CLASS_OTHER,      /* none: the tool itself failed, or an operation was refused */
    FAULT_CLASS_GONE,       /* the process has ended, or is another program now */
    FAULT_CLASS_TRANSIENT,  /* nothing was called; the same may succeed a moment later */
    FAULT_CLASS_DENIED,     /* nothing was called: neither these rights nor this state allow it */
    FAULT_CLASS_ABSENT,     /* there is nothing to work on yet */
    FAULT_CLASS_PERMANENT,  /* it will not change while the process lives */
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
    FAULT_IN_PERF,
};

/* A flag in a code: the fault may concern only one thread of the process. */
enum { FAULT_OF_THREAD = 1 << 8 };

/* The first code of a class in a layer; the enumerators that follow count up from it. */
#define FAULT_FIRST(layer, class) (FAULT_IN_##layer << 16 | FAULT_CLASS_##class << 12)

enum {
    FAULT_NONE = 0,

    FAULT_INTERNAL = FAULT_FIRST(BASE, OTHER), /* a bug, or the tool itself lacks a resource */
    FAULT_TOO_LARGE,                           /* larger than a limit of the tool */
};

struct fault {
    fault_code code;
    int err;           /* errno, or the return code of an injected call; 0: none */
    int reason;        /* tells apart the causes of one code (attach/faults.h); 0: none */
    const char *stage; /* the failed operation, static text: "seize", "read maps" */
    char what[256];    /* the object: a path, a name, a thread */
    int pid;           /* another process: the tracer of a traced target; 0: none */
};

/*
 * Fills *fault (unless it is NULL), with no reason and no pid, and returns code, so that
 * a caller can write: return fault_set(f, FAULT_GONE, ESRCH, "seize", "thread %d", tid);
 */
__attribute__((format(printf, 5, 6))) fault_code fault_set(struct fault *fault, fault_code code,
                                                           int err, const char *stage,
                                                           const char *fmt, ...);

/* Sets the reason after fault_set (unless fault is NULL). */
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

/* True if nothing was called, and a second attempt may succeed a moment later. */
static inline bool fault_is_transient(fault_code code)
{
    return fault_class_of(code) == FAULT_CLASS_TRANSIENT;
}

/* True if there was nothing to work on, but may be later. */
static inline bool fault_is_absent(fault_code code)
{
    return fault_class_of(code) == FAULT_CLASS_ABSENT;
}

/* True if no attempt can succeed while the process lives. */
static inline bool fault_is_permanent(fault_code code)
{
    return fault_class_of(code) == FAULT_CLASS_PERMANENT;
}

/* True if a call may still be running in the target. Never treat this as "nothing happened". */
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

/* True if the fault may only be a symptom: a target that has just ended fails in such ways. */
static inline bool fault_may_be_end(fault_code code)
{
    enum fault_class class = fault_class_of(code);

    return code == FAULT_INTERNAL || class == FAULT_CLASS_TRANSIENT ||
           class == FAULT_CLASS_DENIED || class == FAULT_CLASS_ABSENT;
}

/* True if the tool itself is out of memory, which is not a fault of any target. */
static inline bool fault_is_out_of_memory(const struct fault *fault)
{
    return fault->code == FAULT_INTERNAL && fault->err == ENOMEM;
}
