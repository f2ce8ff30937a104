/* Captures the output of a function on stderr, as text. */
#pragma once

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct capture {
    int file, former;
};

static inline void capture_begin(struct capture *capture)
{
    fflush(stderr);
    capture->former = dup(STDERR_FILENO);
    capture->file = memfd_create("stderr", MFD_CLOEXEC);
    dup2(capture->file, STDERR_FILENO);
}

/* Restores stderr and reads at most size - 1 bytes of the output. */
static inline const char *capture_end(struct capture *capture, char *text, size_t size)
{
    fflush(stderr);
    ssize_t n = pread(capture->file, text, size - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    dup2(capture->former, STDERR_FILENO);
    close(capture->former);
    close(capture->file);
    return text;
}
