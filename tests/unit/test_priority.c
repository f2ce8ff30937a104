/* The priority for a stop is given back, also without the right that took it. */
#include "check.h"
#include "host/priority.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static void drop_right(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    if (!CHECK(syscall(SYS_capget, &header, data) == 0))
        return;
    data[0].effective &= ~(1u << CAP_SYS_NICE);
    CHECK(syscall(SYS_capset, &header, data) == 0);
}

/* As with RLIMIT_RTPRIO: the kernel grants the priority, but does not take back the flag. */
static void test_restored(void)
{
    struct priority priority;

    CHECK(priority_raise(&priority, 0) && priority.raised);
    drop_right();
    priority_restore(&priority);
    CHECK((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_OTHER);
}

int main(void)
{
    const struct sched_param param = {.sched_priority = 1};

    if (sched_setscheduler(0, SCHED_FIFO, &param)) {
        puts("SKIP: no real-time priority can be had here");
        return 77;
    }
    CHECK(sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){.sched_priority = 0}) == 0);
    test_restored();
    return check_result();
}
