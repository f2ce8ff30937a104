/*
 * walks PID SECONDS [page-faults|cpu-clock [PERIOD [STACK-BYTES [TID [SAMPLES]]]]]
 * walks PID FILE
 *
 * Samples a thread of a process, usually the first, by perf_event_open(2), for some seconds
 * or until there are that many samples; or takes the samples of all its threads from a file of
 * `perf record --call-graph dwarf`, while the process still runs. Prints the calls of each sample
 * that perf/walk.h finds: how the walk ended, the number of guesses, then innermost first
 * FILE+OFFSET, or the address alone. The last line has the number of samples, and the microseconds
 * of a walk: first time, then repeated.
 */
#include "perf/machine.h"
#include "perf/walk.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

enum { RING_PAGES = 1024, CHAIN_MAX = 512, KEPT_MAX = 20000 };

struct kept {
    struct user_state state;
    uint64_t *chain;
    unsigned char *stack;
    uint64_t time;
};

struct walks {
    pid_t pid;
    struct procfs proc;
    struct target target;
    struct gate gate;
    struct memory memory;
    struct modules modules;
    uint64_t sample_type, regs;
    struct kept *kept;
    size_t count;
};

struct words {
    const unsigned char *at, *end;
};

static uint64_t take(struct words *words)
{
    uint64_t value = 0;

    if (words->end - words->at >= 8) {
        memcpy(&value, words->at, 8);
        words->at += 8;
    }
    return value;
}

static bool take_ids(struct words *words, uint64_t type, pid_t pid, uint64_t *time)
{
    static const uint64_t before[] = {PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP};
    static const uint64_t behind[] = {PERF_SAMPLE_TIME,      PERF_SAMPLE_ADDR, PERF_SAMPLE_ID,
                                      PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU,  PERF_SAMPLE_PERIOD};
    bool good = true;

    for (size_t i = 0; i < 2; i++)
        if (type & before[i])
            take(words);
    if (type & PERF_SAMPLE_TID)
        good = (uint32_t)take(words) == (uint32_t)pid;
    for (size_t i = 0; i < 6; i++) {
        uint64_t value = type & behind[i] ? take(words) : 0;
        if (behind[i] == PERF_SAMPLE_TIME)
            *time = value;
    }
    return good;
}

static void take_chain(struct words *words, struct kept *kept)
{
    uint64_t count = take(words);
    bool user = false;

    kept->chain = calloc(CHAIN_MAX, sizeof *kept->chain);
    kept->state.chain = kept->chain;
    for (uint64_t i = 0; i < count && words->at < words->end; i++) {
        uint64_t addr = take(words);
        if (addr == (uint64_t)PERF_CONTEXT_USER)
            user = true;
        else if (addr >= (uint64_t)PERF_CONTEXT_MAX)
            user = false;
        else if (user && kept->state.chain_len < CHAIN_MAX)
            kept->chain[kept->state.chain_len++] = addr;
    }
}

static void take_stack(struct words *words, struct kept *kept)
{
    uint64_t size = take(words), used;
    const unsigned char *bytes = words->at;

    if (!size || size > (uint64_t)(words->end - words->at))
        return;
    words->at += size;
    used = take(words);
    kept->stack = malloc(used + 1);
    memcpy(kept->stack, bytes, used);
    kept->state.stack = kept->stack;
    kept->state.stack_len = used;
}

static void take_sample(struct walks *walks, struct words words)
{
    struct kept *kept = &walks->kept[walks->count];

    uint64_t time;

    if (walks->count == KEPT_MAX || !take_ids(&words, walks->sample_type, walks->pid, &time))
        return;
    *kept = (struct kept){.time = time};
    if (walks->sample_type & PERF_SAMPLE_CALLCHAIN)
        take_chain(&words, kept);
    if (take(&words) != PERF_SAMPLE_REGS_ABI_64)
        return;
    kept->state.mask = walks->regs;
    for (unsigned i = 0; i < USER_REGS_MAX; i++)
        if (walks->regs >> i & 1)
            kept->state.regs[i] = take(&words);
    take_stack(&words, kept);
    walks->count++;
}

static void take_records(struct walks *walks, struct words words)
{
    while (words.end - words.at >= (ptrdiff_t)sizeof(struct perf_event_header)) {
        struct perf_event_header header;
        memcpy(&header, words.at, sizeof header);
        if (header.size < sizeof header || header.size > words.end - words.at)
            return;
        if (header.type == PERF_RECORD_SAMPLE)
            take_sample(walks, (struct words){words.at + sizeof header, words.at + header.size});
        words.at += header.size;
    }
}

static int compare_times(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

/* The file: magic, size, size of an attribute, then sections of attributes and of data. */
static void read_file(struct walks *walks, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    uint64_t *head;
    struct perf_event_attr attr = {0};

    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    head = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    const unsigned char *bytes = (const unsigned char *)head;
    memcpy(&attr, bytes + head[3], sizeof attr);
    walks->sample_type = attr.sample_type;
    walks->regs = attr.sample_regs_user;
    take_records(walks, (struct words){bytes + head[5], bytes + head[5] + head[6]});
    qsort(walks->kept, walks->count, sizeof *walks->kept, compare_times);
}

static uint64_t sampled_registers(void)
{
    uint64_t mask = 0;

    for (unsigned i = 0; i < MACHINE_REGS; i++)
        if (machine_perf_register(i) >= 0)
            mask |= (uint64_t)1 << machine_perf_register(i);
    return mask;
}

static int open_event(struct walks *walks, const char *event, uint64_t period, uint32_t stack,
                      pid_t tid)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config =
            strcmp(event, "cpu-clock") == 0 ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_PAGE_FAULTS,
        .sample_period = period,
        .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN |
                       PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
        .sample_regs_user = sampled_registers(),
        .sample_stack_user = stack,
        .exclude_callchain_kernel = 1,
        .exclude_kernel = 1,
        .watermark = 1,
        .wakeup_watermark = 256 << 10,
    };

    walks->sample_type = attr.sample_type;
    walks->regs = attr.sample_regs_user;
    return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void read_ring(struct walks *walks, struct perf_event_mmap_page *page)
{
    const unsigned char *ring = (const unsigned char *)page + 4096;
    uint64_t size = RING_PAGES * 4096ul, head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = page->data_tail;
    unsigned char *copy = malloc(head - tail + 1);

    for (uint64_t i = tail; i < head; i++)
        copy[i - tail] = ring[i % size];
    take_records(walks, (struct words){copy, copy + (head - tail)});
    free(copy);
    __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
}

static bool sample(struct walks *walks, double seconds, size_t enough, int fd)
{
    void *page =
        fd < 0 ? MAP_FAILED
               : mmap(NULL, (1 + RING_PAGES) * 4096ul, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED) {
        perror("perf_event_open");
        return false;
    }
    for (int slices = (int)(seconds * 20) + 1; slices > 0 && walks->count < enough; slices--) {
        struct pollfd wait = {fd, POLLIN, 0};
        poll(&wait, 1, 50);
        read_ring(walks, page);
    }
    return true;
}

static void print_call(const struct walks *walks, remote_addr addr)
{
    const struct module *module = modules_at(&walks->modules, addr);

    if (module)
        printf(" %s+0x%llx", module_name(module), (unsigned long long)(addr - module->start));
    else
        printf(" 0x%llx", (unsigned long long)addr);
}

static double now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void walk_all(const struct walks *walks, struct walker *walker, bool print)
{
    static const char *const ends[] = {"complete", "cut", "lost"};
    remote_addr calls[WALK_DEPTH_MAX];
    size_t count;

    for (size_t i = 0; i < walks->count; i++) {
        enum walk_end end = walker_walk(walker, &walks->kept[i].state, calls, &count);
        if (!print)
            continue;
        printf("%s %zu", ends[end], walker_guesses(walker));
        for (size_t j = 0; j < count; j++)
            print_call(walks, calls[j]);
        printf("\n");
    }
}

static void report(struct walks *walks)
{
    struct walker *walker = walker_new(&walks->target, &walks->memory, &walks->modules);
    double times[3];

    times[0] = now_us();
    walk_all(walks, walker, false);
    times[1] = now_us();
    walk_all(walks, walker, false);
    times[2] = now_us();
    walk_all(walks, walker, true);
    double count = (double)(walks->count ? walks->count : 1);
    printf("%zu samples, %.2f us, %.2f us\n", walks->count, (times[1] - times[0]) / count,
           (times[2] - times[1]) / count);
    walker_free(walker);
}

static void release(struct walks *walks)
{
    for (size_t i = 0; i < walks->count; i++) {
        free(walks->kept[i].chain);
        free(walks->kept[i].stack);
    }
    free(walks->kept);
    modules_free(&walks->modules);
    memory_close(&walks->memory);
    target_close(&walks->target);
    procfs_close(&walks->proc);
}

int main(int argc, char **argv)
{
    struct walks walks = {.pid = argc > 2 ? (pid_t)atoi(argv[1]) : 0};
    bool good = true;

    if (argc < 3 || procfs_open(&walks.proc, "/proc") ||
        target_open(&walks.target, &walks.proc, walks.pid, NULL) != FAULT_NONE)
        return 2;
    memory_open(&walks.memory, &walks.target, &walks.gate);
    walks.kept = calloc(KEPT_MAX, sizeof *walks.kept);
    if (strchr(argv[2], '/'))
        read_file(&walks, argv[2]);
    else
        good = sample(&walks, atof(argv[2]), argc > 7 ? strtoul(argv[7], NULL, 0) : KEPT_MAX,
                      open_event(&walks, argc > 3 ? argv[3] : "page-faults",
                                 argc > 4 ? strtoull(argv[4], NULL, 0) : 1,
                                 argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 0) : 8192,
                                 argc > 6 ? (pid_t)atoi(argv[6]) : walks.pid));
    if (modules_load(&walks.modules, &walks.target, NULL) != FAULT_NONE)
        return 2;
    modules_tell_memory(&walks.modules, &walks.memory);
    if (good)
        report(&walks);
    release(&walks);
    return good ? 0 : 77;
}
