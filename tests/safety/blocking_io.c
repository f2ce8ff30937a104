/* Reads, writes and locks of file descriptors of every kind. */
#include "blocking.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static bool with_pipe(struct context *context)
{
    return pipe(context->fds) == 0;
}

static bool with_sockets(struct context *context)
{
    return socketpair(AF_UNIX, SOCK_STREAM, 0, context->fds) == 0;
}

static bool with_eventfd(struct context *context)
{
    context->fds[0] = eventfd(0, EFD_CLOEXEC);
    context->fds[1] = dup(context->fds[0]);
    return context->fds[1] >= 0;
}

static bool with_tty(struct context *context)
{
    return openpty(&context->fds[1], &context->fds[0], NULL, NULL, NULL) == 0;
}

static bool with_fifo(struct context *context)
{
    char path[64];

    snprintf(path, sizeof(path), "fifo.%d", (int)getpid());
    if (mkfifo(path, 0600) != 0)
        return false;
    context->fds[0] = open(path, O_RDWR | O_CLOEXEC);
    context->fds[1] = open(path, O_WRONLY | O_CLOEXEC);
    unlink(path);
    return context->fds[1] >= 0;
}

static long make_read(struct context *context)
{
    char bytes[8] = "";
    long got = read(context->fds[0], bytes, sizeof(bytes));

    context->good = got < 0 || !memcmp(bytes, "8 bytes\n", 8);
    return got;
}

static void end_by_write(struct context *context)
{
    if (write(context->fds[1], "8 bytes\n", 8) != 8)
        context->good = false;
}

static long make_recv(struct context *context)
{
    char bytes[8];

    return recv(context->fds[0], bytes, sizeof(bytes), 0);
}

static long make_recvmsg(struct context *context)
{
    char bytes[8];
    struct iovec part = {bytes, sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return recvmsg(context->fds[0], &message, 0);
}

static long make_recvmmsg(struct context *context)
{
    char bytes[8];
    struct iovec part = {bytes, sizeof(bytes)};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};

    return recvmmsg(context->fds[0], &message, 1, 0, NULL);
}

/* Half of it is written before the attach. */
static long make_recv_waitall(struct context *context)
{
    char bytes[16];

    return recv(context->fds[0], bytes, sizeof(bytes), MSG_WAITALL);
}

static bool with_half(struct context *context)
{
    return with_sockets(context) && write(context->fds[1], "8 bytes\n", 8) == 8;
}

static bool limit(const struct context *context, int option)
{
    struct timeval span = {context->ms / 1000, context->ms % 1000 * 1000};

    return setsockopt(context->fds[0], SOL_SOCKET, option, &span, sizeof(span)) == 0;
}

static bool with_receive_timeout(struct context *context)
{
    return with_sockets(context) && limit(context, SO_RCVTIMEO);
}

static bool fill(int fd)
{
    char block[4096] = "";
    int flags = fcntl(fd, F_GETFL);

    if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return false;
    while (write(fd, block, sizeof(block)) > 0)
        ;
    while (write(fd, block, 1) > 0)
        ;
    return fcntl(fd, F_SETFL, flags) == 0;
}

static bool with_full_socket(struct context *context)
{
    return with_sockets(context) && fill(context->fds[0]);
}

static bool with_send_timeout(struct context *context)
{
    return with_full_socket(context) && limit(context, SO_SNDTIMEO);
}

static bool with_full_pipe(struct context *context)
{
    int swapped;

    if (!with_pipe(context) || !fill(context->fds[1]))
        return false;
    swapped = context->fds[0];
    context->fds[0] = context->fds[1];
    context->fds[1] = swapped;
    return true;
}

static long make_write(struct context *context)
{
    return write(context->fds[0], "8 bytes\n", 8);
}

static long make_send(struct context *context)
{
    return send(context->fds[0], "8 bytes\n", 8, 0);
}

static long make_sendmsg(struct context *context)
{
    char bytes[8] = "8 bytes";
    struct iovec part = {bytes, sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return sendmsg(context->fds[0], &message, 0);
}

static void end_by_drain(struct context *context)
{
    static char sink[1 << 20];

    if (read(context->fds[1], sink, sizeof(sink)) <= 0)
        context->good = false;
}

/* More than fits: part of it is written before the thread waits. */
static long make_write_long(struct context *context)
{
    static char block[1 << 18];

    return write(context->fds[1], block, sizeof(block));
}

static void end_by_drain_all(struct context *context)
{
    static char sink[1 << 18];

    fcntl(context->fds[0], F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 200; i++) {
        while (read(context->fds[0], sink, sizeof(sink)) > 0)
            ;
        usleep(100);
    }
}

static bool listening(struct context *context, int backlog)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "jeattach-safety.%d",
             (int)getpid());
    context->area = memcpy(malloc(sizeof(address)), &address, sizeof(address));
    context->fds[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(context->fds[0], context->area, sizeof(address)) == 0 &&
           listen(context->fds[0], backlog) == 0;
}

static bool with_listener(struct context *context)
{
    return listening(context, 4);
}

static bool with_listener_timeout(struct context *context)
{
    return with_listener(context) && limit(context, SO_RCVTIMEO);
}

static long make_accept(struct context *context)
{
    int fd = accept(context->fds[0], NULL, NULL);

    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static void end_by_connect(struct context *context)
{
    context->fds[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connect(context->fds[1], context->area, sizeof(struct sockaddr_un));
}

/* fds[1] listens and its queue is full; the connecting socket is fds[0]. */
static bool with_full_backlog(struct context *context)
{
    int first;

    if (!listening(context, 0))
        return false;
    context->fds[1] = context->fds[0];
    first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    context->fds[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(first, context->area, sizeof(struct sockaddr_un)) == 0;
}

static bool with_connect_timeout(struct context *context)
{
    return with_full_backlog(context) && limit(context, SO_SNDTIMEO);
}

static long make_connect(struct context *context)
{
    return connect(context->fds[0], context->area, sizeof(struct sockaddr_un));
}

static void end_by_accept(struct context *context)
{
    context->id = accept(context->fds[1], NULL, NULL);
}

static bool with_inotify(struct context *context)
{
    context->fds[0] = inotify_init1(IN_CLOEXEC);
    return inotify_add_watch(context->fds[0], ".", IN_CREATE) >= 0;
}

static long make_read_inotify(struct context *context)
{
    char events[4096];

    return read(context->fds[0], events, sizeof(events)) > 0 ? 0 : -1;
}

static void end_by_create(struct context *context)
{
    char path[] = "event.XXXXXX";

    context->fds[1] = mkstemp(path);
    unlink(path);
}

static bool with_signalfd(struct context *context)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    context->fds[0] = signalfd(-1, &set, SFD_CLOEXEC);
    return context->fds[0] >= 0;
}

static long make_read_signalfd(struct context *context)
{
    struct signalfd_siginfo info = {0};
    long got = read(context->fds[0], &info, sizeof(info));

    context->good = (int)info.ssi_signo == SIGRTMIN + 3;
    return got;
}

static void end_by_rt_signal(struct context *context)
{
    pthread_kill(context->thread, SIGRTMIN + 3);
}

static long make_poll_forever(struct context *context)
{
    struct pollfd fd = {context->fds[0], POLLIN, 0};

    return poll(&fd, 1, -1);
}

static long make_epoll_forever(struct context *context)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = epoll_create1(EPOLL_CLOEXEC);

    epoll_ctl(fd, EPOLL_CTL_ADD, context->fds[0], &event);
    long ready = epoll_wait(fd, &event, 1, -1);
    close(fd);
    return ready;
}

static long make_splice(struct context *context)
{
    int out[2];

    if (pipe(out) != 0)
        return -2;
    long moved = splice(context->fds[0], NULL, out[1], NULL, 8, 0);
    close(out[0]);
    close(out[1]);
    return moved;
}

static long make_open_fifo(struct context *context)
{
    int fd = open(context->area, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static bool with_fifo_path(struct context *context)
{
    static char path[64];

    snprintf(path, sizeof(path), "fifo.%d", (int)getpid());
    context->area = path;
    return mkfifo(path, 0600) == 0;
}

static void end_by_open(struct context *context)
{
    context->fds[1] = open(context->area, O_WRONLY | O_CLOEXEC);
    unlink(context->area);
}

/* ---- locks: fds[1] has the lock that fds[0] waits for ---- */

static bool with_two_files(struct context *context)
{
    char path[] = "lock.XXXXXX";

    context->fds[1] = mkstemp(path);
    context->fds[0] = open(path, O_RDWR | O_CLOEXEC);
    unlink(path);
    return context->fds[0] >= 0;
}

static bool with_flock(struct context *context)
{
    return with_two_files(context) && flock(context->fds[1], LOCK_EX) == 0;
}

static long make_flock(struct context *context)
{
    return flock(context->fds[0], LOCK_EX);
}

static void end_by_unlock(struct context *context)
{
    flock(context->fds[1], LOCK_UN);
}

static struct flock whole(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

static bool with_ofd_lock(struct context *context)
{
    struct flock lock = whole(F_WRLCK);

    return with_two_files(context) && fcntl(context->fds[1], F_OFD_SETLK, &lock) == 0;
}

static long make_ofd_lock(struct context *context)
{
    struct flock lock = whole(F_WRLCK);

    return fcntl(context->fds[0], F_OFD_SETLKW, &lock);
}

static void end_by_ofd_unlock(struct context *context)
{
    struct flock lock = whole(F_UNLCK);

    fcntl(context->fds[1], F_OFD_SETLK, &lock);
}

static void hold_lock(const struct context *context)
{
    struct flock lock = whole(F_WRLCK);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fcntl(context->fds[1], F_SETLK, &lock);
    for (;;)
        pause();
}

static bool with_record_lock(struct context *context)
{
    if (!with_two_files(context))
        return false;
    context->child = fork();
    if (context->child == 0)
        hold_lock(context);
    usleep(20000);
    return context->child > 0;
}

static long make_record_lock(struct context *context)
{
    struct flock lock = whole(F_WRLCK);

    return fcntl(context->fds[0], F_SETLKW, &lock);
}

static void end_by_kill(struct context *context)
{
    kill(context->child, SIGKILL);
}

/* ---- asynchronous ---- */

static bool with_aio(struct context *context)
{
    static aio_context_t aio;

    aio = 0;
    context->area = &aio;
    return syscall(SYS_io_setup, 4, &aio) == 0;
}

static long make_io_getevents(struct context *context)
{
    struct timespec span = blocking_span(context);
    struct io_event event;

    return syscall(SYS_io_getevents, *(aio_context_t *)context->area, 1, 1, &event, &span);
}

static long make_io_pgetevents(struct context *context)
{
    struct timespec span = blocking_span(context);
    struct io_event event;
    uint64_t mask = 1;
    struct {
        const void *mask;
        size_t size;
    } set = {&mask, 8};

    return syscall(SYS_io_pgetevents, *(aio_context_t *)context->area, 1, 1, &event, &span, &set);
}

static struct io_uring_params ring;

static bool with_ring(struct context *context)
{
    memset(&ring, 0, sizeof(ring));
    context->fds[0] = (int)syscall(SYS_io_uring_setup, 4, &ring);
    return context->fds[0] >= 0;
}

static void *ring_part(const struct context *context, off_t at)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, context->fds[0], at);
}

/* One timeout of ms in the submission queue, or an empty queue. */
static void ring_add(const struct context *context, bool timeout)
{
    static struct timespec span;
    char *queue = ring_part(context, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entry = ring_part(context, IORING_OFF_SQES);

    span = blocking_span(context);
    memset(entry, 0, sizeof(*entry));
    entry->opcode = timeout ? IORING_OP_TIMEOUT : IORING_OP_NOP;
    entry->addr = timeout ? (uintptr_t)&span : 0;
    entry->len = timeout;
    ((uint32_t *)(void *)(queue + ring.sq_off.array))[0] = 0;
    __atomic_store_n((uint32_t *)(void *)(queue + ring.sq_off.tail), 1, __ATOMIC_RELEASE);
}

static uint32_t ring_completions(const struct context *context)
{
    const char *queue = ring_part(context, IORING_OFF_CQ_RING);

    return __atomic_load_n((const uint32_t *)(const void *)(queue + ring.cq_off.tail),
                           __ATOMIC_ACQUIRE);
}

static long make_ring_timeout(struct context *context)
{
    struct timespec span = blocking_span(context);
    struct io_uring_getevents_arg arg = {.ts = (uintptr_t)&span};

    return syscall(SYS_io_uring_enter, context->fds[0], 0, 1,
                   IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof(arg));
}

static long make_ring_wait(struct context *context)
{
    long result = syscall(SYS_io_uring_enter, context->fds[0], 0, 1, IORING_ENTER_GETEVENTS, 0, 0);

    context->good = ring_completions(context) == 1;
    return result;
}

static void end_by_nop(struct context *context)
{
    ring_add(context, false);
    syscall(SYS_io_uring_enter, context->fds[0], 1, 0, 0, 0, 0);
}

static bool with_ring_entry(struct context *context)
{
    if (!with_ring(context))
        return false;
    ring_add(context, true);
    return true;
}

static long make_ring_submit(struct context *context)
{
    long result = syscall(SYS_io_uring_enter, context->fds[0], 1, 1, IORING_ENTER_GETEVENTS, 0, 0);

    context->good = ring_completions(context) == 1;
    return result;
}

const struct call blocking_io[] = {
    {"read_pipe", 8, 0, 0, with_pipe, make_read, end_by_write},
    {"read_eventfd", 8, 0, 0, with_eventfd, make_read, end_by_write},
    {"read_socket", 8, 0, 0, with_sockets, make_read, end_by_write},
    {"read_tty", 8, 0, 0, with_tty, make_read, end_by_write},
    {"read_fifo", 8, 0, 0, with_fifo, make_read, end_by_write},
    {"read_inotify", 0, 0, 0, with_inotify, make_read_inotify, end_by_create},
    {"read_signalfd", 128, 0, 0, with_signalfd, make_read_signalfd, end_by_rt_signal},
    {"read_timeout", -1, EAGAIN, ENDS_LATER, with_receive_timeout, make_read, NULL},
    {"recv", 8, 0, 0, with_sockets, make_recv, end_by_write},
    {"recvmsg", 8, 0, 0, with_sockets, make_recvmsg, end_by_write},
    {"recv_timeout", -1, EAGAIN, ENDS_LATER, with_receive_timeout, make_recv, NULL},
    {"recvmsg_timeout", -1, EAGAIN, ENDS_LATER, with_receive_timeout, make_recvmsg, NULL},
    {"recvmmsg_timeout", -1, EAGAIN, ENDS_LATER, with_receive_timeout, make_recvmmsg, NULL},
    {"recv_waitall", 16, 0, CUT_SHORT, with_half, make_recv_waitall, end_by_write},
    {"write_pipe", 8, 0, LET_BE, with_full_pipe, make_write, end_by_drain},
    {"write_pipe_long", 1 << 18, 0, CUT_SHORT | LET_BE, with_pipe, make_write_long,
     end_by_drain_all},
    {"write_timeout", -1, EAGAIN, ENDS_LATER | LET_BE, with_send_timeout, make_write, NULL},
    {"send", 8, 0, LET_BE, with_full_socket, make_send, end_by_drain},
    {"send_timeout", -1, EAGAIN, ENDS_LATER | LET_BE, with_send_timeout, make_send, NULL},
    {"sendmsg_timeout", -1, EAGAIN, ENDS_LATER | LET_BE, with_send_timeout, make_sendmsg, NULL},
    {"accept", 0, 0, 0, with_listener, make_accept, end_by_connect},
    {"accept_timeout", -1, EAGAIN, ENDS_LATER, with_listener_timeout, make_accept, NULL},
    {"connect", 0, 0, LET_BE, with_full_backlog, make_connect, end_by_accept},
    {"connect_timeout", -1, EAGAIN, ENDS_LATER | LET_BE, with_connect_timeout, make_connect, NULL},
    {"poll_forever", 1, 0, 0, with_pipe, make_poll_forever, end_by_write},
    {"epoll_forever", 1, 0, 0, with_pipe, make_epoll_forever, end_by_write},
    {"splice", 8, 0, LET_BE, with_pipe, make_splice, end_by_write},
    {"open_fifo", 0, 0, LET_BE, with_fifo_path, make_open_fifo, end_by_open},
    {"flock", 0, 0, LET_BE, with_flock, make_flock, end_by_unlock},
    {"fcntl_ofd_setlkw", 0, 0, LET_BE, with_ofd_lock, make_ofd_lock, end_by_ofd_unlock},
    {"fcntl_setlkw", 0, 0, LET_BE, with_record_lock, make_record_lock, end_by_kill},
    {"io_getevents", 0, 0, ENDS_LATER | LET_BE, with_aio, make_io_getevents, NULL},
    {"io_pgetevents", 0, 0, ENDS_LATER | LET_BE, with_aio, make_io_pgetevents, NULL},
    {"io_uring_timeout", -1, ETIME, ENDS_LATER | LET_BE, with_ring, make_ring_timeout, NULL},
    {"io_uring_wait", 0, 0, LET_BE, with_ring, make_ring_wait, end_by_nop},
    {"io_uring_submit", 1, 0, CUT_SHORT | LET_BE, with_ring_entry, make_ring_submit, NULL},
    {NULL},
};
