#include "perf/event_open.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int event_syscall(struct perf_event_attr *attr, pid_t tid, int cpu)
{
    long fd;

    attr->type = PERF_TYPE_SOFTWARE;
    attr->size = sizeof *attr;
    attr->exclude_hv = 1;
    attr->use_clockid = 1;
    attr->clockid = CLOCK_MONOTONIC;
    fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

/*
 * Without PERF_SAMPLE_PERIOD: with it and a fixed period the kernel takes a sample of
 * every software event (perf_swevent_event, kernel/events/core.c). Without attr.freq:
 * the kernel's own adaptation sets periods of 40 million faults after a burst.
 */
int event_open(const struct event_form *form, pid_t tid, int cpu)
{
    struct perf_event_attr attr = {
        .config = PERF_COUNT_SW_PAGE_FAULTS,
        .sample_period = form->period,
        .sample_type = EVENT_SAMPLE,
        .exclude_kernel = !form->kernel,
        .exclude_callchain_kernel = 1,
        .inherit = form->inherit,
        .inherit_thread = form->inherit && form->threads_only,
        .task = 1, /* a record of each new thread */
        .sample_regs_user = form->registers,
        .sample_stack_user = form->stack_bytes,
        .watermark = 1,
        .wakeup_watermark = UINT32_MAX,
    };

    if (!form->registers)
        attr.sample_type &= ~(uint64_t)PERF_SAMPLE_REGS_USER;
    return event_syscall(&attr, tid, cpu);
}

int event_open_silent(int cpu)
{
    struct perf_event_attr attr = {
        .config = PERF_COUNT_SW_DUMMY,
        .exclude_kernel = 1,
        .watermark = 1,
        .wakeup_watermark = UINT32_MAX,
    };

    return event_syscall(&attr, 0, cpu);
}

uint64_t event_id(int fd)
{
    uint64_t id;

    return ioctl(fd, PERF_EVENT_IOC_ID, &id) ? 0 : id;
}

uint64_t event_count(int fd)
{
    uint64_t count;

    return read(fd, &count, sizeof count) == (ssize_t)sizeof count ? count : 0;
}

static int try_form(const struct event_form *form)
{
    int fd = event_open(form, 0, -1);

    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

/*
 * One event stays open meanwhile: the first one and the end of the last one make the kernel
 * patch its code on all CPUs (perf_swevent_enabled, a static key).
 */
int event_form_probe(struct event_form *form)
{
    struct event_form plain = {.period = 1, .stack_bytes = form->stack_bytes};
    AUTO_CLOSE int fd = event_open(&plain, 0, -1);

    if (fd < 0)
        return fd;
    form->registers = 0;
    /* The kernel refuses numbers of registers that the machine does not have. */
    for (unsigned i = 0; i < 64; i++) {
        plain.registers = (uint64_t)1 << i;
        if (try_form(&plain) == 0)
            form->registers |= plain.registers;
    }
    plain.registers = 0;
    plain.inherit = plain.threads_only = true;
    form->threads_only = try_form(&plain) == 0;
    return 0;
}
