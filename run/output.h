/*
 * An output file. It is created under a temporary name in the same directory
 * before the target is touched, and gets its name only when it is complete.
 *
 * A profile shows what a process works on, so a new file has mode 0600. A file that
 * replaces one of the tool's user keeps its mode; another user's choice counts for
 * nothing. output_set_mode overrides both.
 */
#pragma once

#include "base/fault.h"
#include "run/outfile.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { OUTPUT_MODE_UNSET = -1, OUTPUT_PATIENT = INT_MAX };

struct output {
    int fd;
    char *path; /* as requested; "-" is stdout */
    struct outfile file;
    char *temporary; /* name in its directory; NULL: written directly (stdout, FIFO, device) */
    bool standard;   /* it is stdout */
    bool fresh;      /* existing files are never overwritten */
    unsigned number; /* with fresh: the first number to try, then the one used; 0: none */
    int err;         /* of the first write before output_finish that failed */
    int signals;     /* that had come when its stream began */
    uint64_t ns;     /* after output_finish: how long it took */
};

/*
 * Opens it, to replace an existing file. "/dev/fd/3" is the file descriptor that the tool
 * was started with: what it is open on is written, not replaced; EBADF: there is none.
 */
fault_code output_open(struct output *output, const char *path, struct fault *fault);
/*
 * The same for a new file: existing files are never overwritten. If the name is
 * taken, FAULT_OUTPUT with EEXIST; with may_number, or if it is taken only
 * before output_finish, the file gets a number ("x-1.heap") in output->path.
 */
fault_code output_open_new(struct output *output, const char *path, bool may_number,
                           struct fault *fault);
/*
 * The one of the two that replace asks for, which the operator does with --force; with the
 * mode of output_set_mode.
 */
fault_code output_open_named(struct output *output, const char *path, bool replace, int mode,
                             struct fault *fault);
/*
 * Gives an unfinished file this mode, without the bits of the umask, as open(2) does. No effect
 * on stdout, FIFOs and devices, and with OUTPUT_MODE_UNSET.
 */
void output_set_mode(const struct output *output, int mode);
/*
 * Changes the name of an unfinished file of output_open_new, in the same
 * directory; no effect on stdout, FIFOs and devices. False: out of memory.
 */
bool output_name(struct output *output, const char *path);
/* Writes bytes; output_finish reports errors. */
void output_write(struct output *output, const unsigned char *bytes, size_t len);
/*
 * A stream to the output; output_finish reports its errors. EINTR: a signal has come since; ETIME:
 * the time of interruptions_end_at is over. NULL: out of memory.
 */
FILE *output_stream(struct output *output);
/* Writes all bytes, flushes them to disk and gives the file its name. */
fault_code output_finish(struct output *output, const void *bytes, size_t len, struct fault *fault);
/* Removes an unfinished file; idempotent. */
void output_close(struct output *output);

/* Sets the fault of a write to stdout that failed with err, and returns its code. */
fault_code output_stdout_failed(struct fault *fault, int err);

/*
 * True if a failed write(2), with errno, should be repeated: after a tick of the
 * deadline or a first Ctrl-C, and for a full non-blocking file descriptor, after
 * waiting for its reader.
 */
bool output_may_retry(int fd);

/*
 * Writes all bytes, waiting for the reader, until so many signals have come since the start of the
 * tool; OUTPUT_PATIENT: none ends it. Returns 0 or errno.
 */
int output_write_all(int fd, const unsigned char *bytes, size_t len, int signals);
