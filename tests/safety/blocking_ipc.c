/* System V and POSIX objects, and other processes and threads. */
#include "blocking.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

struct message {
    long type;
    char bytes[8];
};

static bool with_semaphore(struct context *context)
{
    context->id = semget(IPC_PRIVATE, 1, 0600);
    return context->id >= 0;
}

/* errno is what the call left. */
static long remove_after(long result, const struct context *context)
{
    int error = errno;

    semctl(context->id, 0, IPC_RMID);
    errno = error;
    return result;
}

static long make_semop(struct context *context)
{
    struct sembuf take = {0, -1, 0};

    return remove_after(semop(context->id, &take, 1), context);
}

static void end_semop(struct context *context)
{
    struct sembuf give = {0, 1, 0};

    semop(context->id, &give, 1);
}

static long make_semtimedop(struct context *context)
{
    struct sembuf take = {0, -1, 0};
    struct timespec span = blocking_span(context);

    return remove_after(semtimedop(context->id, &take, 1, &span), context);
}

static bool with_queue(struct context *context)
{
    context->id = msgget(IPC_PRIVATE, 0600);
    return context->id >= 0;
}

static bool with_full_queue(struct context *context)
{
    struct message message = {1, "8 bytes"};
    struct msqid_ds limits;

    if (!with_queue(context) || msgctl(context->id, IPC_STAT, &limits) != 0)
        return false;
    limits.msg_qbytes = sizeof(message.bytes);
    return msgctl(context->id, IPC_SET, &limits) == 0 &&
           msgsnd(context->id, &message, sizeof(message.bytes), 0) == 0;
}

static long make_msgrcv(struct context *context)
{
    struct message message;
    long got = msgrcv(context->id, &message, sizeof(message.bytes), 1, 0);

    msgctl(context->id, IPC_RMID, NULL);
    return got;
}

static void end_msgrcv(struct context *context)
{
    struct message message = {1, "8 bytes"};

    msgsnd(context->id, &message, sizeof(message.bytes), 0);
}

static long make_msgsnd(struct context *context)
{
    struct message message = {1, "8 bytes"};
    long result = msgsnd(context->id, &message, sizeof(message.bytes), 0);

    msgctl(context->id, IPC_RMID, NULL);
    return result;
}

static void end_msgsnd(struct context *context)
{
    struct message message;

    msgrcv(context->id, &message, sizeof(message.bytes), 1, 0);
}

static bool with_mq(struct context *context)
{
    struct mq_attr limits = {.mq_maxmsg = 1, .mq_msgsize = 8};
    char name[64];

    snprintf(name, sizeof(name), "/jeattach-safety.%d", (int)getpid());
    context->fds[0] = mq_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600, &limits);
    mq_unlink(name);
    return context->fds[0] >= 0;
}

static bool with_full_mq(struct context *context)
{
    return with_mq(context) && mq_send(context->fds[0], "8 bytes", 8, 0) == 0;
}

static long make_mq_receive(struct context *context)
{
    char bytes[8];

    return mq_receive(context->fds[0], bytes, sizeof(bytes), NULL);
}

static void end_mq_receive(struct context *context)
{
    mq_send(context->fds[0], "8 bytes", 8, 0);
}

static long make_mq_timedreceive(struct context *context)
{
    struct timespec until = blocking_until(CLOCK_REALTIME, context);
    char bytes[8];

    return mq_timedreceive(context->fds[0], bytes, sizeof(bytes), NULL, &until);
}

static long make_mq_timedsend(struct context *context)
{
    struct timespec until = blocking_until(CLOCK_REALTIME, context);

    return mq_timedsend(context->fds[0], "8 bytes", 8, 0, &until);
}

static bool with_child(struct context *context)
{
    context->child = fork();
    if (context->child == 0) {
        usleep((useconds_t)context->ms * 1000 + 20000); /* begins before the call does */
        blocking_add_wait();
        _exit(7);
    }
    return context->child > 0;
}

static long make_waitpid(struct context *context)
{
    int status = 0;
    pid_t got = waitpid(context->child, &status, 0);

    context->good = got == context->child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
    context->child = 0;
    return got > 0 ? 0 : -1;
}

static long make_waitid(struct context *context)
{
    siginfo_t info = {0};
    int result = waitid(P_PID, (id_t)context->child, &info, WEXITED);

    context->good = info.si_status == 7;
    context->child = 0;
    return result;
}

static void *sleeper(void *data)
{
    usleep((useconds_t)((struct context *)data)->ms * 1000 + 20000);
    blocking_add_wait();
    return NULL;
}

static bool with_thread(struct context *context)
{
    return pthread_create(&context->other, NULL, sleeper, context) == 0;
}

static long make_join(struct context *context)
{
    return pthread_join(context->other, NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool with_mutex(struct context *context)
{
    (void)context;
    return pthread_mutex_lock(&mutex) == 0;
}

static long make_mutex(struct context *context)
{
    (void)context;
    int error = pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return error;
}

static void end_mutex(struct context *context)
{
    (void)context;
    pthread_mutex_unlock(&mutex);
}

static sem_t semaphore;

static bool with_sem(struct context *context)
{
    (void)context;
    return sem_init(&semaphore, 0, 0) == 0;
}

static long make_sem_wait(struct context *context)
{
    (void)context;
    return sem_wait(&semaphore);
}

static void end_sem_wait(struct context *context)
{
    (void)context;
    sem_post(&semaphore);
}

const struct call blocking_ipc[] = {
    {"semop", 0, 0, LET_BE, with_semaphore, make_semop, end_semop},
    {"semtimedop", -1, EAGAIN, ENDS_LATER | LET_BE, with_semaphore, make_semtimedop, NULL},
    {"msgrcv", 8, 0, LET_BE, with_queue, make_msgrcv, end_msgrcv},
    {"msgsnd", 0, 0, LET_BE, with_full_queue, make_msgsnd, end_msgsnd},
    {"mq_receive", 8, 0, LET_BE, with_mq, make_mq_receive, end_mq_receive},
    {"mq_timedreceive", -1, ETIMEDOUT, LET_BE, with_mq, make_mq_timedreceive, NULL},
    {"mq_timedsend", -1, ETIMEDOUT, LET_BE, with_full_mq, make_mq_timedsend, NULL},
    {"waitpid", 0, 0, 0, with_child, make_waitpid, NULL},
    {"waitid", 0, 0, 0, with_child, make_waitid, NULL},
    {"pthread_join", 0, 0, 0, with_thread, make_join, NULL},
    {"mutex", 0, 0, 0, with_mutex, make_mutex, end_mutex},
    {"sem_wait", 0, 0, 0, with_sem, make_sem_wait, end_sem_wait},
    {NULL},
};
