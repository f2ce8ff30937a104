#include "run/switching.h"
#include "attach/threads.h"
#include "jemalloc/faults.h"
#include "run/need.h"
#include "run/readout.h"
#include "run/thread_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MS = 1000000,
    IDLE_NS = 2 * MS,    /* without any CPU time in it, a process is idle */
    AWAIT_NS = 300 * MS, /* limit of the wait for the first sample */
    QUIET_NS = 20 * MS,  /* limit for a process that allocates nothing in it */
    STEP_NS = 2 * MS,    /* between two looks */
    RAN_NS = 5 * MS,     /* CPU time in which a process that allocates would have done so */
};

const char *switching_find(struct attachment *attachment, bool active, struct prof_state *state)
{
    return prof_byte_find(&attachment->byte, active, &attachment->instance, &attachment->modules,
                          &attachment->target, &attachment->memory, state);
}

fault_code switching_refuse(struct attachment *attachment, const char *why, struct fault *fault)
{
    const remote_addr known = attachment->instance.mallctl;
    char byte;

    if (!memory_read(&attachment->memory, known, &byte, 1) &&
        target_check_end(&attachment->target, fault) != FAULT_NONE)
        return fault->code;
    if (!memory_is_same(&attachment->memory, known))
        return fault_set(fault, FAULT_EXECED, 0, "find prof.active", "%d",
                         (int)attachment->target.pid);
    if (attachment->memory.left_out)
        return need_explain_swapped(attachment, fault);
    return fault_set(fault, FAULT_UNWRITABLE, 0, "find prof.active", "%s", why);
}

fault_code switching_write(struct attachment *attachment, bool active,
                           const struct prof_state *state, struct fault *fault)
{
    struct fault end;
    fault_code rc = build_can_profile(&state->build, fault);

    if (rc == FAULT_NONE)
        rc = target_check(&attachment->target, fault);
    if (rc != FAULT_NONE || prof_is_active(state) == active)
        return rc;
    rc = prof_byte_write(&attachment->byte, active, &attachment->memory, fault);
    if (rc != FAULT_NONE && target_check(&attachment->target, &end) != FAULT_NONE)
        *fault = end;
    return rc == FAULT_NONE ? FAULT_NONE : fault->code;
}

/* ---- the first sample ---- */

/* CPU time of all threads; running ones are counted up to their last tick. 0: unknown. */
static uint64_t cpu_ns(const struct attachment *attachment)
{
    struct timespec time;
    clockid_t clock;

    if (clock_getcpuclockid(attachment->target.pid, &clock) || clock_gettime(clock, &time))
        return 0;
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static bool has_running_thread(const struct attachment *attachment)
{
    struct threads threads;
    struct fault fault;
    bool runs = false;

    if (threads_list(&threads, &attachment->target, &fault) != FAULT_NONE)
        return false;
    for (size_t i = 0; i < threads.count; i++)
        runs |= threads.list[i].state == 'R';
    threads_free(&threads);
    return runs;
}

static void sleep_ns(uint64_t ns)
{
    const struct timespec time = {.tv_nsec = (long)ns};

    nanosleep(&time, NULL);
}

/* True if it has used less than a hundredth of its time since it started. */
static bool is_mostly_idle(const struct attachment *attachment)
{
    const uint64_t tick_ns = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t started = attachment->target.stat.start * tick_ns, cpu = cpu_ns(attachment);
    struct timespec time;
    uint64_t now;

    clock_gettime(CLOCK_BOOTTIME, &time);
    now = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
    return cpu && started < now && cpu < (now - started) / 100;
}

/* Only what runs often, or for long now, is looked at for a while. */
static bool is_idle(const struct attachment *attachment)
{
    const bool mostly = is_mostly_idle(attachment);
    uint64_t before = cpu_ns(attachment);

    if (mostly && !has_running_thread(attachment))
        return true;
    sleep_ns(IDLE_NS);
    return before && cpu_ns(attachment) - before <= (mostly ? IDLE_NS / 10 : 0) &&
           !has_running_thread(attachment);
}

/* The size of a profile. */
struct extent {
    uint64_t objects, bytes;
    size_t stacks;
};

/* Reads "  t*: OBJECTS: BYTES [...]", behind the first line of the profile. */
static bool read_extent(struct attachment *attachment, struct extent *extent)
{
    struct reading reading;
    struct fault fault;
    struct sink sink;
    bool found = false;

    sink_init(&sink, sink_affordable(&attachment->proc, SIZE_MAX));
    if (reader_read(&attachment->reader, &sink, &reading, &fault) == FAULT_NONE &&
        sink_reserve(&sink, 1)) {
        sink.bytes[sink.len] = '\0';
        found = sscanf((const char *)sink.bytes, "heap_v2/%*u t*: %" SCNu64 ": %" SCNu64,
                       &extent->objects, &extent->bytes) == 2;
        extent->stacks = reading.stacks;
    }
    sink_free(&sink);
    return found;
}

/* Adds up the bytes that all threads have allocated. False: of some thread it is not known. */
static bool read_allocated(struct attachment *attachment, uint64_t *bytes)
{
    struct thread_view view;
    struct fault ignored;
    bool known = thread_view_read(&view, attachment, 0, &ignored) == FAULT_NONE;

    *bytes = 0;
    for (size_t i = 0; i < view.threads.count; i++) {
        known &= view.threads.list[i].has_counts;
        *bytes += view.threads.list[i].allocated;
    }
    thread_view_free(&view);
    return known;
}

/* A thread that waits for a CPU has had no time to allocate. */
static bool has_had_time(const struct attachment *attachment, uint64_t since, uint64_t cpu)
{
    return clock_now() - since >= QUIET_NS &&
           (!has_running_thread(attachment) || (cpu && cpu_ns(attachment) - cpu >= RAN_NS));
}

/* Only samples make a profile grow; frees make it shrink. */
static enum first_sample await_growth(struct attachment *attachment, uint64_t since)
{
    struct extent before, now;
    uint64_t first, allocated, cpu = cpu_ns(attachment);
    bool counted = read_allocated(attachment, &first);

    if (!read_extent(attachment, &before))
        return FIRST_SAMPLE_UNKNOWN;
    while (clock_now() - since < AWAIT_NS && !deadline_passed(&attachment->deadline) &&
           !deadline_interrupted(&attachment->deadline)) {
        sleep_ns(STEP_NS);
        if (!read_extent(attachment, &now))
            return FIRST_SAMPLE_UNKNOWN;
        if (now.objects > before.objects || now.bytes > before.bytes || now.stacks > before.stacks)
            return FIRST_SAMPLE_SEEN;
        before = now;
        if (!counted || !has_had_time(attachment, since, cpu))
            continue;
        if (read_allocated(attachment, &allocated) && allocated == first)
            return FIRST_SAMPLE_QUIET;
        counted = false;
    }
    return FIRST_SAMPLE_NONE;
}

enum first_sample switching_await(struct attachment *attachment, uint64_t *after_ns)
{
    enum first_sample seen = FIRST_SAMPLE_UNKNOWN;
    uint64_t since = clock_now();
    struct fault fault;

    if (is_idle(attachment))
        seen = FIRST_SAMPLE_IDLE;
    else if (readout_find(attachment, &fault) == FAULT_NONE)
        seen = await_growth(attachment, since);
    *after_ns = clock_now() - since;
    return seen;
}
