#include "perf/sources.h"
#include "base/list.h"
#include "host/task.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    PASSES_MAX = 50,              /* over the list of threads, while new ones appear */
    LISTED_RINGS_MAX = 128 << 20, /* if each thread has a ring */
    RINGS_MAX = 64 << 20,         /* bytes of all rings, which the kernel locks into memory */
};

/* ---- one thread ---- */

static int add_source(struct sources *sources, int fd, pid_t tid, bool late)
{
    if (!LIST_GROW(sources->list, sources->capacity, sources->count))
        return -ENOMEM;
    sources->list[sources->count++] =
        (struct source){.fd = fd, .tid = tid, .late = late, .id = event_id(fd)};
    sources->late_count += late;
    return 0;
}

static void close_source(struct sources *sources, struct source *source)
{
    if (source->fd < 0)
        return;
    sources->ring_bytes -= source->ring.size;
    ring_unmap(&source->ring);
    util_close(&source->fd);
    sources->late_count -= source->late;
}

/* Returns the size for one of several rings. */
static size_t share_of_rings(const struct sources *sources, size_t rings)
{
    size_t size = sources->ring_size;

    while (size > sources->ring_least && size * rings > RINGS_MAX)
        size /= 2;
    return size;
}

static int open_with_ring(struct sources *sources, pid_t tid)
{
    AUTO_CLOSE int fd = event_open(&sources->form, tid, -1);
    struct ring ring = {.page = NULL};
    int rc = -ENOBUFS;

    if (fd < 0)
        return fd;
    if (sources->ring_bytes + sources->ring_least <= LISTED_RINGS_MAX)
        rc = ring_map(&ring, fd, share_of_rings(sources, sources->expected), sources->ring_least);
    if (rc == 0)
        rc = add_source(sources, fd, tid, false);
    if (rc) {
        ring_unmap(&ring);
        return rc;
    }
    steal_fd(&fd);
    sources->list[sources->count - 1].ring = ring;
    sources->ring_bytes += ring.size;
    return 0;
}

static int open_on_cpu(struct sources *sources, pid_t tid, const struct cpu_ring *ring, bool late)
{
    AUTO_CLOSE int fd = event_open(&sources->form, tid, ring->cpu);
    int rc;

    if (fd < 0)
        return fd == -ENODEV ? 0 : fd; /* the CPU has been taken offline */
    if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd))
        return -errno;
    rc = add_source(sources, fd, tid, late);
    if (rc == 0)
        steal_fd(&fd);
    return rc;
}

static int open_thread(struct sources *sources, pid_t tid, bool late)
{
    int rc = 0;

    if (sources->count + sources->cpu_count > sources->files_max)
        return -EMFILE;
    if (sources->way == SOURCES_LISTED)
        return open_with_ring(sources, tid);
    for (size_t i = 0; i < sources->cpu_count && rc == 0; i++)
        rc = open_on_cpu(sources, tid, &sources->rings[i], late);
    return rc;
}

/* ---- the list of threads ---- */

static int order_tids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

    return (x > y) - (x < y);
}

static bool has_tid(const struct tid_list *list, pid_t tid)
{
    return list->count && bsearch(&tid, list->tids, list->count, sizeof tid, order_tids);
}

static int read_tids(struct tid_list *out, const struct target *target)
{
    struct task_dir dir;
    int rc = task_dir_of_threads(&dir, target->proc, target->pid);
    pid_t tid;

    while (rc == 0 && (tid = task_dir_next(&dir))) {
        if (!LIST_GROW(out->tids, out->capacity, out->count))
            rc = -ENOMEM;
        else
            out->tids[out->count++] = tid;
    }
    task_dir_close(&dir);
    if (out->count)
        qsort(out->tids, out->count, sizeof *out->tids, order_tids);
    return rc == 0 && out->count == 0 ? -ESRCH : rc;
}

/* True if no more threads are to be opened. */
static bool is_over(const struct sources *sources)
{
    return sources->count && sources->deadline && deadline_is_over(sources->deadline);
}

/*
 * Opens the listed threads that are not open yet. Returns their number, or -errno where the
 * usual way has too many events; a thread that has ended is no error.
 */
static ssize_t open_new(struct sources *sources, const struct tid_list *now, bool late)
{
    ssize_t opened = 0;

    for (size_t i = 0; i < now->count; i++) {
        if (has_tid(&sources->opened, now->tids[i]))
            continue;
        int rc = is_over(sources) ? -ETIMEDOUT : open_thread(sources, now->tids[i], late);
        if (rc && rc != -ESRCH && sources->way != SOURCES_LISTED &&
            (rc == -EMFILE || rc == -ENFILE || sources->count == 0))
            return rc;
        if (rc && rc != -ESRCH) {
            sources->refused++;
            sources->refused_err = rc;
        }
        opened++;
    }
    return opened;
}

/* One pass: sets *opened to the number of threads that were new. */
static int open_pass(struct sources *sources, bool late, size_t *opened)
{
    struct tid_list now = {.tids = NULL};
    ssize_t rc = read_tids(&now, sources->target);

    sources->expected = now.count;
    if (rc == 0)
        rc = open_new(sources, &now, late);
    if (rc < 0) {
        free(now.tids);
        return (int)rc;
    }
    *opened = (size_t)rc;
    free(sources->opened.tids);
    sources->opened = now;
    return 0;
}

/* A thread may start while others are being opened: lists them until none is new. */
static int open_threads(struct sources *sources)
{
    size_t opened = 1;
    int rc = 0;

    for (unsigned pass = 0; pass < PASSES_MAX && opened && rc == 0 && !is_over(sources); pass++)
        rc = open_pass(sources, pass > 0, &opened);
    if (rc == 0 && sources->count == 0)
        rc = sources->refused ? sources->refused_err : -ESRCH;
    return rc;
}

/* ---- the rings of the CPUs ---- */

static void close_cpu_rings(struct sources *sources)
{
    for (size_t i = 0; i < sources->cpu_count; i++) {
        ring_unmap(&sources->rings[i].ring);
        util_close(&sources->rings[i].fd);
    }
    free(sources->rings);
    sources->rings = NULL;
    sources->cpu_count = 0;
}

static int open_cpu_ring(struct cpu_ring *ring, int cpu, size_t size, size_t least)
{
    AUTO_CLOSE int fd = event_open_silent(cpu);
    int rc;

    if (fd < 0)
        return fd;
    rc = ring_map(&ring->ring, fd, size, least);
    ring->cpu = cpu;
    ring->fd = rc ? -1 : steal_fd(&fd);
    return rc;
}

static int open_cpu_rings(struct sources *sources)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    size_t size = share_of_rings(sources, (size_t)sysconf(_SC_NPROCESSORS_ONLN));
    int rc = 0;

    sources->rings = calloc((size_t)cpus, sizeof *sources->rings);
    if (!sources->rings)
        return -ENOMEM;
    for (int cpu = 0; cpu < cpus && rc == 0; cpu++) {
        rc = open_cpu_ring(&sources->rings[sources->cpu_count], cpu, size, sources->ring_least);
        if (rc == 0)
            sources->cpu_count++;
        else if (rc == -ENODEV || rc == -EINVAL)
            rc = 0; /* a CPU that is offline */
    }
    if (rc)
        close_cpu_rings(sources); /* some CPUs alone would be a silent part */
    return rc;
}

/* ---- all of them ---- */

/* Returns the number of threads; 0: unknown. That of the process would add up those of each. */
static size_t live_threads(const struct sources *sources)
{
    const struct target *target = sources->target;
    struct proc_stat stat;

    if (thread_stat(target->proc, target->pid, target_via(target), &stat))
        return 0;
    return (size_t)stat.threads;
}

static size_t events_of(size_t threads)
{
    return threads * (size_t)sysconf(_SC_NPROCESSORS_ONLN);
}

static bool is_crowd(size_t threads)
{
    return threads > SOURCES_THREADS_MAX || events_of(threads) > SOURCES_MAX;
}

static int open_cpus(struct sources *sources)
{
    int rc = sources->rings ? 0 : open_cpu_rings(sources);

    sources->form.inherit = false;
    for (size_t i = 0; i < sources->cpu_count && rc == 0; i++)
        rc = open_on_cpu(sources, -1, &sources->rings[i], false);
    if (rc == 0) {
        sources->way = SOURCES_OF_CPUS;
        return 0;
    }
    sources_clear(sources);
    return rc;
}

int sources_open(struct sources *sources)
{
    size_t threads = live_threads(sources),
           events_max = sources->files_max < SOURCES_MAX ? sources->files_max : SOURCES_MAX;
    int rc = -EMFILE;

    sources->refused = 0;
    if (sources->way == SOURCES_OF_CPUS)
        return open_cpus(sources);
    if (is_crowd(threads) && !sources->cpus_err)
        sources->cpus_err = open_cpus(sources);
    if (sources->way == SOURCES_OF_CPUS)
        return 0;
    if (sources->way == SOURCES_INHERITED && events_of(threads) <= events_max) {
        rc = sources->rings ? 0 : open_cpu_rings(sources);
        sources->form.inherit = true;
        if (rc == 0)
            rc = open_threads(sources);
    }
    if (rc == -EMFILE || rc == -ENFILE) {
        sources_clear_rings(sources);
        sources->way = SOURCES_LISTED;
        sources->form.inherit = false;
        rc = open_threads(sources);
    }
    return rc;
}

/* Twice the border, so that a number of threads near it does not open all events again. */
bool sources_outgrown(const struct sources *sources)
{
    size_t threads = live_threads(sources);

    if (sources->way != SOURCES_INHERITED)
        return sources->way == SOURCES_LISTED && !sources->cpus_err && is_crowd(threads / 2);
    return sources->cpus_err ? events_of(threads / 2) > SOURCES_MAX : is_crowd(threads / 2);
}

size_t sources_missed(const struct sources *sources, size_t *all)
{
    *all = sources->opened.count;
    if (sources->way == SOURCES_LISTED)
        return *all > sources->count ? *all - sources->count : 0;
    return sources->way == SOURCES_OF_CPUS ? 0 : sources->refused;
}

void sources_renew(struct sources *sources, ring_action action, void *ctx)
{
    size_t opened, kept = 0;

    if (sources->way != SOURCES_LISTED || open_pass(sources, false, &opened))
        return;
    /* Removes the events of ended threads from the list; the others keep their order. */
    for (size_t i = 0; i < sources->count; i++) {
        struct source *source = &sources->list[i];
        if (has_tid(&sources->opened, source->tid)) {
            sources->list[kept++] = *source;
            continue;
        }
        action(ctx, &source->ring);
        sources->faults += event_count(source->fd);
        close_source(sources, source);
    }
    sources->count = kept;
}

void sources_stop(struct sources *sources)
{
    for (size_t i = 0; i < sources->count; i++)
        if (sources->list[i].fd >= 0)
            (void)ioctl(sources->list[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}

void sources_clear(struct sources *sources)
{
    for (size_t i = 0; i < sources->count; i++) {
        if (sources->list[i].fd >= 0)
            sources->faults += event_count(sources->list[i].fd);
        close_source(sources, &sources->list[i]);
    }
    sources->count = 0;
    sources->opened.count = 0;
}

void sources_clear_rings(struct sources *sources)
{
    sources_clear(sources);
    close_cpu_rings(sources);
}

void sources_close(struct sources *sources)
{
    sources_clear_rings(sources);
    free(sources->list);
    free(sources->opened.tids);
    memset(sources, 0, sizeof *sources);
}

void sources_each_ring(struct sources *sources, ring_action action, void *ctx)
{
    for (size_t i = 0; i < sources->cpu_count; i++)
        action(ctx, &sources->rings[i].ring);
    for (size_t i = 0; i < sources->count; i++)
        if (sources->list[i].ring.page)
            action(ctx, &sources->list[i].ring);
}

uint64_t sources_faults(const struct sources *sources)
{
    uint64_t faults = sources->faults;

    for (size_t i = 0; i < sources->count; i++)
        if (sources->list[i].fd >= 0)
            faults += event_count(sources->list[i].fd);
    return faults;
}

static bool is_opened_late(const struct sources *sources, pid_t tid, uint64_t event)
{
    bool late = false;

    for (size_t i = 0; i < sources->count; i++) {
        const struct source *source = &sources->list[i];
        if (source->tid != tid)
            continue;
        if (source->id == event)
            return false;
        late |= source->late && source->fd >= 0;
    }
    return late;
}

bool sources_is_double(struct sources *sources, pid_t tid, uint64_t event)
{
    if (!sources->late_count || !is_opened_late(sources, tid, event))
        return false;
    for (size_t i = 0; i < sources->count; i++)
        if (sources->list[i].tid == tid)
            close_source(sources, &sources->list[i]);
    return true;
}
