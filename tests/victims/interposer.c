/*
 * To be preloaded: open, creat and close take a lock, and close sleeps while it has it. A thread
 * that is stopped there must not make a call that comes here again.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int open(const char *path, int flags, ...)
{
    va_list list;
    int fd;

    va_start(list, flags);
    pthread_mutex_lock(&lock);
    fd = (int)syscall(SYS_open, path, flags, va_arg(list, int));
    pthread_mutex_unlock(&lock);
    va_end(list);
    return fd;
}

int creat(const char *path, mode_t mode)
{
    return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int close(int fd)
{
    const struct timespec pause = {0, 50000000};
    int result;

    pthread_mutex_lock(&lock);
    nanosleep(&pause, NULL);
    result = (int)syscall(SYS_close, fd);
    pthread_mutex_unlock(&lock);
    return result;
}
