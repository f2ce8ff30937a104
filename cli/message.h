/* Messages on stderr, the wording of faults, and the exit codes. */
#pragma once

#include "base/fault.h"

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

/* What a message is about. */
struct subject {
    int pid;              /* 0: no single process, or a file */
    int ns_pid;           /* in its own pid namespace; 0: unknown */
    const char *name;     /* NULL: unknown */
    const char *verb;     /* "dump" */
    const char *variable; /* the environment variable that configures this jemalloc */
    const char *instead;  /* what needs no call, if a call is not possible; NULL: nothing */
    bool samples_stay;    /* it still has the samples that could not be written */
    bool json;            /* faults are printed as JSON too */
    bool any_allocator;   /* of a search: not only for processes with jemalloc */
    bool core;            /* name is a core file; pid is 0 */
};

/*
 * Prints the fault in three lines (what, cause, fix) and returns its exit code;
 * with subject->json also as an object {"error": {...}} on stdout. Prints nothing if the reader of
 * stdout has left: it has what it wanted.
 */
int message_fault(const struct subject *subject, const struct fault *fault);

enum { MESSAGE_LINE = 1024 };

/* The wording of a fault. */
struct fault_words {
    int exit;
    char what[MESSAGE_LINE], cause[MESSAGE_LINE], fix[MESSAGE_LINE]; /* fix "": there is none */
};

void message_words(const struct subject *subject, const struct fault *fault,
                   struct fault_words *words);

/* Writes the members of a fault: code, exit, what, cause, seen, fix. */
struct json;
void message_json(struct json *json, const struct fault *fault, const struct fault_words *words);

/* Writes only the cause. Returns out. */
const char *message_cause(const struct subject *subject, const struct fault *fault, char *out,
                          size_t size);

/*
 * Expands %P and %V of a template (cli/fault_table.h). Returns out.
 */
const char *message_expand(const struct subject *subject, const char *template, char *out,
                           size_t size);

/*
 * Prints a usage error of the verb (NULL: no verb was recognized) as JSON; its cause is the last
 * text of message().
 * Does nothing if an error has been printed as JSON already.
 */
void message_usage_json(const char *verb);

/* Prints "jeattach: ..." to stderr. */
__attribute__((format(printf, 1, 2))) void message(const char *fmt, ...);

/*
 * Copies a text that may come from the target (names, paths), with '?' for each
 * character that must not be printed (base/text.h). Returns out.
 */
const char *message_clean(const char *text, char *out, size_t size);

/* Writes "redis-server[4242]", with the name in the same way. Returns out. */
enum { PROCESS_TEXT = 96 };
const char *message_process(const char *name, int pid, char out[PROCESS_TEXT]);
