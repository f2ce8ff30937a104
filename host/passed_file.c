#include "host/passed_file.h"

#include <errno.h>
#include <string.h>

/* The space for one descriptor beside a message (cmsg(3)). */
union passed_control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr head;
};

ssize_t passed_file_send(int socket, struct iovec *parts, size_t count, int fd, int flags)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    union passed_control control = {.bytes = {0}};
    ssize_t n;

    if (fd >= 0) {
        control.head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
    }
    do
        n = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

ssize_t passed_file_receive(int socket, void *bytes, size_t len, int flags, int *fd)
{
    struct iovec part = {bytes, len};
    union passed_control control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

    *fd = -1;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(head), sizeof *fd);
    return n;
}
