/*
 * Versions of jemalloc, parsed for comparisons.
 *
 * The string is "MAJOR.MINOR.BUGFIX-NREV-gGID" (jemalloc(3), "version"):
 * "5.3.0-0-g54eaed1d8b56..."; NREV counts the commits since that release.
 * Builds of a tree without tags have "0.0.0-0-g000000missing_version_...";
 * --with-version=VERSION can be any text: redis has "5.3.0-0-g0".
 */
#pragma once

#include <stdbool.h>

enum { VERSION_TEXT_MAX = 128 }; /* bytes of a version string that are kept, with its NUL */

/* For tables and comparisons: VERSION_NUMBER(5, 2, 1) is 50201. */
#define VERSION_NUMBER(major, minor, bugfix) ((major)*10000u + (minor)*100u + (bugfix))

struct version {
    unsigned number;  /* VERSION_NUMBER; 0: unknown, then every comparison is false */
    unsigned commits; /* since that release, in a build between releases */
};

/* Parses a version string; number is 0 if it names no release ("0.0.0-...", no digits, NULL). */
struct version version_parse(const char *text);

/*
 * True if it is a release from first to last, both included; last 0: no end. A
 * build with commits after a release counts as that release. False if unknown.
 */
bool version_within(struct version version, unsigned first, unsigned last);
