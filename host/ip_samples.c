#include "host/ip_samples.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* PERF_RECORD_SAMPLE of perf_event_open(2) with these parts. */
enum { IP_SAMPLE = PERF_SAMPLE_IP | PERF_SAMPLE_CPU | PERF_SAMPLE_READ };
struct ip_record {
    struct perf_event_header header;
    uint64_t ip;
    uint32_t cpu, reserved;
    uint64_t used;
};

int ip_samples_open(struct ip_samples *samples, pid_t tid, uint64_t period)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = period,
                                   .sample_type = IP_SAMPLE,
                                   .disabled = 1,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1,
                                   .wakeup_events = 1};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    AUTO_CLOSE int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

    *samples = (struct ip_samples){.fd = -1, .page = page, .cpu = -1};
    if (fd < 0 || sched_getaffinity(0, sizeof samples->former, &samples->former))
        return -errno;
    /* Not writable: then the kernel overwrites old records. */
    void *ring = mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED)
        return -errno;
    samples->ring = ring;
    samples->fd = steal_fd(&fd);
    return 0;
}

void ip_samples_switch(const struct ip_samples *samples, bool on)
{
    ioctl(samples->fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

/* Copies the last record, which may be split by the end of the ring. False: there is no new one. */
static bool last_record(struct ip_samples *samples, struct ip_record *out)
{
    const struct perf_event_mmap_page *head = (const void *)samples->ring;
    uint64_t end = __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE), start = end - sizeof *out;

    if (end < samples->taken + sizeof *out)
        return false;
    for (size_t i = 0; i < sizeof *out; i++)
        ((char *)out)[i] = samples->ring[samples->page + (start + i) % samples->page];
    samples->taken = end;
    return out->header.type == PERF_RECORD_SAMPLE && out->header.size == sizeof *out;
}

static int move_tool(struct ip_samples *samples, uint32_t cpu)
{
    cpu_set_t one;

    if (cpu >= CPU_SETSIZE)
        return -ERANGE;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    samples->cpu = (int)cpu;
    return sched_setaffinity(0, sizeof one, &one) ? -errno : 0;
}

int ip_samples_next(struct ip_samples *samples, int ms, uint64_t *ip)
{
    struct pollfd event = {.fd = samples->fd, .events = POLLIN};
    struct ip_record record;

    if (poll(&event, 1, ms) < 0 && errno != EINTR)
        return -errno;
    if (!last_record(samples, &record))
        return read(samples->fd, &samples->used, sizeof samples->used) < 0 ? -errno : -EAGAIN;
    samples->used = record.used;
    *ip = record.ip;
    return (int)record.cpu == samples->cpu ? 1 : move_tool(samples, record.cpu);
}

void ip_samples_close(struct ip_samples *samples)
{
    if (samples->ring)
        munmap(samples->ring, 2 * samples->page);
    if (samples->cpu >= 0)
        sched_setaffinity(0, sizeof samples->former, &samples->former);
    samples->ring = NULL;
    samples->cpu = -1;
    util_close(&samples->fd);
}
