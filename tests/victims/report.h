/*
 * A victim's report to its test, in a file that both map. tests/lib.py unpacks the same layout.
 */
#ifndef VICTIM_REPORT_H
#define VICTIM_REPORT_H

#include <stddef.h>
#include <stdint.h>

#define REPORT_MAGIC 0x6d69746369765f6aull

enum report_state { REPORT_STARTING, REPORT_READY, REPORT_FAILED };

struct report {
    uint64_t magic;
    int32_t pid;
    int32_t state;          /* enum report_state */
    uint64_t iterations;    /* rounds done */
    uint64_t errors;        /* differences in registers, memory, signal state, results */
    uint64_t eintr;         /* system calls that ended with EINTR */
    uint64_t early;         /* timeouts that fired too soon */
    uint64_t late;          /* ... or later than twice the requested time, plus a tolerance */
    uint64_t errno_lost;    /* rounds after which errno had changed */
    uint64_t max_late_ns;   /* the worst delay beyond the requested time */
    uint64_t helper_rounds; /* the same for all helper threads together */
    uint64_t helper_late;   /* ... rounds that took 50 ms more than requested */
    uint64_t helper_max_late_ns;
    char text[128]; /* the last difference */
};

_Static_assert(offsetof(struct report, text) == 96, "tests/lib.py knows this layout");

#endif
