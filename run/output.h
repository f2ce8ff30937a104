/*
 * The file that -o names. It is made under a temporary name beside it before
 * the target is touched, and gets its own name only when it is complete.
 */
#pragma once

#include "base/fault.h"
#include "run/outfile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct output {
    int fd;
    char *path; /* as asked for; "-" is stdout */
    struct outfile file;
    char *temporary; /* in its directory; NULL: written directly (stdout, FIFO, device) */
    bool fresh;      /* what is there is never replaced */
    unsigned number; /* with fresh: the first one to be tried; then the one that it got; 0: none */
    int err;         /* of the first write to output_stream that failed */
};

fault_code output_open(struct output *output, const char *path, struct fault *fault);
/*
 * The same for a file that is made anew: nothing that is there is replaced. If
 * the name is taken, FAULT_OUTPUT with EEXIST; with may_number, and if it is
 * taken only meanwhile, it gets a number ("x-1.heap") and output->path tells.
 */
fault_code output_open_new(struct output *output, const char *path, bool may_number,
                           struct fault *fault);
/*
 * Another name in the same directory for what output_open_new has opened, and
 * is not finished; stdout and what is no regular file keep theirs. False: out
 * of memory.
 */
bool output_name(struct output *output, const char *path);
/* A stream onto the output; its errors are told by output_finish. NULL: out of memory. */
FILE *output_stream(struct output *output);
/* Writes all bytes, flushes them to the disk and gives the file its name. */
fault_code output_finish(struct output *output, const void *bytes, size_t len, struct fault *fault);
/* Removes what is unfinished; idempotent. */
void output_close(struct output *output);

/*
 * After a write(2) that failed with errno: may it be made again? Yes after the
 * deadline's ticks and a first Ctrl-C, and for a full descriptor that does not
 * block: then after a wait for its reader.
 */
bool output_may_retry(int fd);

/*
 * Writes all bytes, and waits for the reader. patient: also through a second
 * Ctrl-C, until one ends the tool. Returns 0 or errno.
 */
int output_write_all(int fd, const unsigned char *bytes, size_t len, bool patient);
