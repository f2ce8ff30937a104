/* Words: what the operator reads on stderr, and the exit codes. */
#pragma once

#include "base/fault.h"
#include "cli/options.h"

#include <stddef.h>

enum exit_code {
    EXIT_DONE = 0,
    EXIT_INTERNAL = 1,
    EXIT_USAGE = 2,
    EXIT_GONE = 3,
    EXIT_DENIED = 4,
    EXIT_NO_ALLOCATOR = 5,
    EXIT_NO_PROFILING = 6,
    EXIT_NO_SAFE_POINT = 7,
    EXIT_CALL_DEADLINE = 8,
    EXIT_OUTPUT = 9,
    EXIT_REFUSED = 10,
    EXIT_INTERRUPTED = 130,
};

/* What the message is about. name may be NULL: not known yet; pid 0: no single process, or a file.
 */
struct subject {
    int pid;
    int ns_pid; /* as it sees itself; 0: not known yet */
    const char *name;
    const char *verb;     /* "dump" */
    const char *variable; /* the environment variable that configures this jemalloc */
    bool json;            /* faults are printed as JSON too */
};

/*
 * Prints the fault in three lines (what, cause, fix) and returns its exit code;
 * with subject->json also as an object {"error": {...}} on stdout.
 */
int message_fault(const struct subject *subject, const struct fault *fault);

enum { MESSAGE_LINE = 1024 };

/* A fault in words. */
struct fault_words {
    int exit;
    char what[MESSAGE_LINE], cause[MESSAGE_LINE], fix[MESSAGE_LINE]; /* fix "": there is none */
};

void message_words(const struct subject *subject, const struct fault *fault,
                   struct fault_words *words);

/* code, exit, what, cause, seen, fix: the members that tell of a fault. */
struct json;
void message_json(struct json *json, const struct fault *fault, const struct fault_words *words);

/* The words of its cause alone. Returns out. */
const char *message_cause(const struct subject *subject, const struct fault *fault, char *out,
                          size_t size);

/*
 * A wrong use of the verb, as JSON: what message() said of it last is the cause.
 * Nothing if an error has been printed as JSON already.
 */
void message_usage_json(const char *verb);

/* "jeattach: ..." on stderr. */
__attribute__((format(printf, 1, 2))) void message(const char *fmt, ...);

/*
 * Copies text with everything a terminal might act on replaced by '?': names
 * and paths come from the target. Returns out.
 */
const char *message_clean(const char *text, char *out, size_t size);

/* "1.2 ms" */
