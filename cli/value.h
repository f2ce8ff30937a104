/* Values of mallctl's names as words: what the operator writes, and what is printed. */
#pragma once

#include "jemalloc/ctl.h"

/*
 * Parses a value of a type strictly: bool true, false, on, off, yes, no, 1, 0;
 * numbers decimal and within their type, those of size_t also with K, M, G or
 * T (powers of 1024), signed ones with a minus sign. False: it is no such
 * value, or values of that type cannot be written.
 */
bool value_parse(enum ctl_type type, const char *text, uint64_t *value);

/* "a size in bytes, as 4096, 64K, 1G": what value_parse takes. */
const char *value_wanted(enum ctl_type type);

/* The value that ctl_run has read: `true`, `4096`, `-1`, `"text"`, `0x7f..`. Returns out. */
const char *value_format(enum ctl_type type, uint64_t value, const char *text, char *out,
                         size_t size);

/* "bool", "unsigned", "size_t", "ssize_t", "uint64_t", "int64_t", "string". */
bool value_type(const char *text, enum ctl_type *type);
