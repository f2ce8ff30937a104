/*
 * The file that -o names. It is made under a temporary name beside it before
 * the target is touched, and gets its own name only when it is complete.
 */
#pragma once

#include "attach/fault.h"

#include <stddef.h>

struct output {
    int fd;
    char *path;      /* as asked for; "-" is stdout */
    char *temporary; /* NULL: written directly (stdout, FIFO, device) */
};

enum fault_code output_open(struct output *output, const char *path, struct fault *fault);
/* Writes all bytes, flushes them to the disk and gives the file its name. */
enum fault_code output_finish(struct output *output, const void *bytes, size_t len,
                              struct fault *fault);
/* Removes what is unfinished; idempotent. */
void output_close(struct output *output);

/* Has everything printed on stdout been written? */
enum fault_code output_stdout_check(struct fault *fault);
