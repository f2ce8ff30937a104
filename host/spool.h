/* Copies a pipe into an unlinked file, so that it can be read at any offset. */
#pragma once

#include <signal.h>
#include <stdint.h>

struct spool_result {
    uint64_t bytes; /* read from the pipe */
    uint64_t limit; /* most that is copied */
};

/*
 * Copies all that fd yields into a file without a name: in $TMPDIR, /var/tmp or /tmp,
 * else in memory (memfd_create(2)). Blocks of zeros become holes. Copies at most 9/10
 * of what is free on that file system, and at most half of the memory available if it
 * lies in memory. Of what does not start with `begin` only the first MiB is copied.
 *
 * Returns the file's descriptor, which the caller closes, or -errno. -EFBIG: there is
 * more than result->limit; -EINTR: *interrupted was set (NULL: no flag).
 */
int spool_pipe(int fd, const char *begin, const volatile sig_atomic_t *interrupted,
               struct spool_result *result);
