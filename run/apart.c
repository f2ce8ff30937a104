#include "run/apart.h"
#include "host/priority.h"
#include "run/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { END_LOOKS = 20000, END_LOOK_NS = 20000 };

struct apart {
    void (*function)(void *ctx);
    void *ctx;
    sigset_t signals; /* of whoever called, and job control's stops */
    struct cpu_pin pin;
    pid_t tid;
};

static void *main_apart(void *data)
{
    struct apart *apart = data;

    cpu_pin_end(&apart->pin);
    apart->tid = (pid_t)syscall(SYS_gettid);
    pthread_sigmask(SIG_SETMASK, &apart->signals, NULL);
    apart->function(apart->ctx);
    return NULL;
}

/* pthread_join(3) may return a moment before the kernel has let go of the tracees. */
static void wait_for_end(pid_t tid)
{
    const struct timespec pause = {0, END_LOOK_NS};

    for (int look = 0; look < END_LOOKS; look++) {
        if (syscall(SYS_tgkill, getpid(), tid, 0) < 0 && errno == ESRCH)
            return;
        nanosleep(&pause, NULL);
    }
}

void apart_run(void (*function)(void *ctx), void *ctx)
{
    struct apart apart = {.function = function, .ctx = ctx};
    pthread_t thread;
    sigset_t all, former;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    apart.signals = former;
    interrupt_add_stops(&apart.signals);
    cpu_pin_begin(&apart.pin);
    err = pthread_create(&thread, NULL, main_apart, &apart);
    cpu_pin_end(&apart.pin);
    if (!err) {
        pthread_join(thread, NULL);
        wait_for_end(apart.tid);
    }
    if (err) {
        pthread_sigmask(SIG_SETMASK, &apart.signals, NULL);
        function(ctx);
    }
    pthread_sigmask(SIG_SETMASK, &former, NULL);
}
