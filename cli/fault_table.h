/* Every fault in words: one row for each code. */
#pragma once

#include "base/fault.h"

#include <stddef.h>

/*
 * cause and fix are templates. Directives: %W: fault.what, %E: the errno's text,
 * %R: what a return code of mallctl means, %P: the pid, %T: fault.pid, %N: the same
 * after a colon, or nothing, %V: the environment variable that configures this
 * jemalloc, %L: the jemalloc
 * to preload (remedy_library), %Y: what a value of yama's ptrace_scope means; and those of
 * cli/remedy.h.
 */
struct fault_row {
    fault_code code;
    const char *name; /* in JSON: part of the interface, never changed */
    int exit;         /* enum exit_code */
    const char *cause;
    const char *fix; /* where cli/remedy.h has none; NULL: there is none */
};

/* The row of a code; for an unknown one a row with the name "failed". */
const struct fault_row *fault_row(fault_code code);

/* All rows in turn, for the tests; NULL after the last one. */
const struct fault_row *fault_row_at(size_t i);
