/* Values of mallctl names as text: parsed from the command line, and printed. */
#pragma once

#include "jemalloc/ctl.h"

/*
 * Parses a value of a type strictly: bool as true, false, on, off, yes, no, 1 or
 * 0; numbers as decimals within their type, size_t also with K, M, G or T
 * (powers of 1024), signed types with a minus sign. False: not a valid value, or
 * values of that type cannot be written.
 */
bool value_parse(enum ctl_type type, const char *text, uint64_t *value);

/* Describes the values that value_parse accepts: "a number, or a size such as 64K, 16M, 1G". */
const char *value_wanted(enum ctl_type type);

/* Formats a value that ctl_run has read: `true`, `4096`, `-1`, `"text"`, `0x7f..`. Returns out. */
const char *value_format(enum ctl_type type, uint64_t value, const char *text, char *out,
                         size_t size);
