/*
 * sqpoll: io_uring's polling thread is busy in the kernel for as long as this runs. It prints
 * "ready", and sleeps. Exit code 77: the kernel does not let it.
 */
#include <linux/io_uring.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IDLE_MS = 600000, PAGE = 4096 };

static void *part(int ring, off_t at)
{
    return mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring, at);
}

int main(void)
{
    struct io_uring_params params = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = IDLE_MS};
    int ring;
    char *queue;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ring = (int)syscall(SYS_io_uring_setup, 4, &params);
    if (ring < 0)
        return 77;
    queue = part(ring, IORING_OFF_SQ_RING);
    if (queue == MAP_FAILED || part(ring, IORING_OFF_SQES) == MAP_FAILED)
        return 77;
    /* The entry is all zeros: a NOP. */
    __atomic_store_n((uint32_t *)(void *)(queue + params.sq_off.tail), 1, __ATOMIC_RELEASE);
    syscall(SYS_io_uring_enter, ring, 0, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        free(malloc(100));
        sleep(1);
    }
}
