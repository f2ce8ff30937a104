/*
 * The file that -o names. It is made under a temporary name beside it before
 * the target is touched, and gets its own name only when it is complete.
 */
#pragma once

#include "attach/fault.h"

#include <stddef.h>
#include <stdio.h>

struct output {
    int fd;
    char *path;      /* as asked for; "-" is stdout */
    char *temporary; /* NULL: written directly (stdout, FIFO, device) */
    int err;         /* of the first write to output_stream that failed */
};

enum fault_code output_open(struct output *output, const char *path, struct fault *fault);
/* A stream onto the output; its errors are told by output_finish. NULL: out of memory. */
FILE *output_stream(struct output *output);
/* Writes all bytes, flushes them to the disk and gives the file its name. */
enum fault_code output_finish(struct output *output, const void *bytes, size_t len,
                              struct fault *fault);
/* Removes what is unfinished; idempotent. */
void output_close(struct output *output);

/* Has everything printed on stdout been written? */
enum fault_code output_stdout_check(struct fault *fault);
