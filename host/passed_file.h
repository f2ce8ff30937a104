/* Messages on a Unix socket that carry a copy of a file descriptor (unix(7), SCM_RIGHTS). */
#pragma once

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Sends the parts as one message, with a copy of fd if it is not negative. As sendmsg(2); a signal
 * does not end it. */
ssize_t passed_file_send(int socket, struct iovec *parts, size_t count, int fd, int flags);
/*
 * Receives at most len bytes, as recvmsg(2). *fd is the descriptor that came with them, which the
 * caller owns and which is closed by exec, or -1.
 */
ssize_t passed_file_receive(int socket, void *bytes, size_t len, int flags, int *fd);
