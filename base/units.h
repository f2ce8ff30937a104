/*
 * Formats and parses sizes, rates and durations. The tool prints them only with
 * these functions, so that the same size looks the same everywhere; machine
 * formats (JSON, pprof, ...) have plain numbers.
 *
 * The rule: at most three significant digits, without trailing zeros ("64",
 * "1.5", "2.34", "117"), a space, the unit. Sizes have the units of IEC 80000-13
 * (B, KiB, ... EiB) and step to the next one before they would show 1024.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { UNITS_TEXT = 32 }; /* bytes of any text below, with its NUL */

/* "117 MiB", "-1.5 KiB", "0 B". Returns out. */
const char *units_bytes(double bytes, char out[UNITS_TEXT]);
/* A growth, with its sign: "+117 MiB", "-1.5 KiB", "0 B". Returns out. */
const char *units_change(double bytes, char out[UNITS_TEXT]);
/* A growth per second: "+1.5 MiB/s", "0 B/s". Returns out. */
const char *units_rate(double bytes_per_second, char out[UNITS_TEXT]);
/* Shortens one of these texts for a narrow column: "117M", "+1.5M/s", "0". Returns text. */
const char *units_shorten(char *text);
/* "0.94 ms", "12.3 ms", "1.5 s", "2 min 5 s", "3 h 20 min", "4 d 1 h". Returns out. */
const char *units_duration(uint64_t ns, char out[UNITS_TEXT]);

/*
 * These parse the start of a text and point *rest at what follows; false if it
 * does not start with such a number, or if the number is too large.
 */

/* Decimal digits, up to limit. */
bool units_parse_digits(const char *text, uint64_t limit, uint64_t *value, const char **rest);
/* Digits with at most one point, which has digits on both sides: "80", "99.5". */
bool units_parse_decimal(const char *text, double *value, const char **rest);
/* Such a number of bytes, with the suffix K, M, G or T (powers of 1024) or KiB...: "1.5GiB". */
bool units_parse_bytes(const char *text, uint64_t *bytes, const char **rest);

/* A whole text: seconds, or a number with ms, s, m or h; more than 0 and at most 24 hours. */
bool units_parse_duration(const char *text, uint64_t *ns);
