/* Writes a gzip stream (RFC 1952) through zlib, which is loaded when it is first needed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct gzip;

/*
 * Opens a stream whose output goes to out. NULL: zlib (libz.so.1) is not
 * installed, or out of memory.
 */
struct gzip *gzip_open(FILE *out);
/* False: zlib refused it; errors of out are the caller's to check. */
bool gzip_write(struct gzip *gzip, const void *bytes, size_t len);
/* Ends the stream and releases everything. */
bool gzip_close(struct gzip *gzip);
