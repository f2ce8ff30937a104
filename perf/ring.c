#include "perf/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t ring_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

int ring_map(struct ring *ring, int fd, size_t size, size_t least)
{
    const size_t first = ring_page_size();
    int rc = -EPERM;

    *ring = (struct ring){.whole = malloc(RECORD_MAX)};
    if (!ring->whole)
        return -ENOMEM;
    if (least < first)
        least = first;
    for (; size >= least; size /= 2) {
        void *at = mmap(NULL, first + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED) {
            ring->page = at;
            ring->bytes = (const unsigned char *)at + first;
            ring->size = size;
            return 0;
        }
        rc = -errno;
        if (rc != -EPERM && rc != -ENOMEM)
            break;
    }
    ring_unmap(ring);
    return rc;
}

void ring_unmap(struct ring *ring)
{
    if (ring->page)
        munmap(ring->page, ring_page_size() + ring->size);
    free(ring->whole);
    *ring = (struct ring){.page = NULL};
}

uint64_t ring_begin(const struct ring *ring)
{
    return ring->page->data_tail;
}

/* Copies bytes at a position, which may be split by the end of the ring. */
static void copy_out(const struct ring *ring, uint64_t position, void *out, size_t len)
{
    size_t at = position & (ring->size - 1);
    size_t first = ring->size - at < len ? ring->size - at : len;

    memcpy(out, ring->bytes + at, first);
    memcpy((unsigned char *)out + first, ring->bytes, len - first);
}

bool ring_next(struct ring *ring, uint64_t *position, struct ring_record *record)
{
    uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t left = head - *position;
    struct perf_event_header header;
    size_t at;

    if (left == 0)
        return false;
    if (left <= ring->size && left >= sizeof header) {
        copy_out(ring, *position, &header, sizeof header);
        if (header.size >= sizeof header && header.size <= left) {
            record->type = header.type;
            record->len = header.size - sizeof header;
            at = (*position + sizeof header) & (ring->size - 1);
            record->body = ring->bytes + at;
            if (record->len > ring->size - at) { /* split */
                copy_out(ring, *position + sizeof header, ring->whole, record->len);
                record->body = ring->whole;
            }
            *position += header.size;
            return true;
        }
    }
    ring->broken = true;
    *position = head;
    return false;
}

void ring_release(struct ring *ring, uint64_t position)
{
    __atomic_store_n(&ring->page->data_tail, position, __ATOMIC_RELEASE);
}

/* ---- the records ---- */

/* What is left of a record. */
struct rest {
    const unsigned char *at;
    size_t len;
};

static bool take_part(struct rest *rest, void *out, size_t len)
{
    if (rest->len < len)
        return false;
    memcpy(out, rest->at, len);
    rest->at += len;
    rest->len -= len;
    return true;
}

static bool take_u64(struct rest *rest, uint64_t *out)
{
    return take_part(rest, out, sizeof *out);
}

/* Takes { u64 nr; u64 ips[nr]; }, and leaves out the marks of contexts (PERF_CONTEXT_USER). */
static bool take_chain(struct rest *rest, struct sample_record *out)
{
    uint64_t count, word;

    if (!take_u64(rest, &count) || count > rest->len / sizeof word)
        return false;
    out->state.chain = out->chain;
    for (; count && take_u64(rest, &word); count--)
        if (word < PERF_CONTEXT_MAX && out->state.chain_len < CHAIN_MAX)
            out->chain[out->state.chain_len++] = word;
    return true;
}

/* Takes { u64 abi; u64 regs[bits of mask]; }. Those of a 32-bit program are not reported. */
static bool take_registers(struct rest *rest, struct user_state *state, uint64_t mask)
{
    uint64_t abi;

    if (!mask)
        return true;
    if (!take_u64(rest, &abi))
        return false;
    if (abi == PERF_SAMPLE_REGS_ABI_NONE)
        return true;
    for (unsigned i = 0; i < USER_REGS_MAX; i++)
        if (mask >> i & 1 && !take_u64(rest, &state->regs[i]))
            return false;
    if (abi == PERF_SAMPLE_REGS_ABI_64)
        state->mask = mask;
    return true;
}

/* Takes { u64 size; char data[size]; u64 dyn_size; }, the last two only if size is not 0. */
static bool take_stack_copy(struct rest *rest, struct user_state *state)
{
    const unsigned char *data;
    uint64_t size, copied;

    if (!take_u64(rest, &size) || size > rest->len)
        return false;
    if (size == 0)
        return true;
    data = rest->at;
    rest->at += size;
    rest->len -= size;
    if (!take_u64(rest, &copied))
        return false;
    state->stack = data;
    state->stack_len = copied < size ? copied : size;
    return true;
}

bool record_sample(struct sample_record *out, const unsigned char *bytes, size_t len,
                   uint64_t registers)
{
    struct rest rest = {bytes, len};

    memset(&out->state, 0, sizeof out->state);
    return take_part(&rest, &out->pid, sizeof out->pid) &&
           take_part(&rest, &out->tid, sizeof out->tid) && take_u64(&rest, &out->time_ns) &&
           take_u64(&rest, &out->addr) && take_u64(&rest, &out->event) && take_chain(&rest, out) &&
           take_registers(&rest, &out->state, registers) && take_stack_copy(&rest, &out->state);
}

/* struct { u32 pid, ppid, tid, ptid; u64 time; } (linux/perf_event.h) */
pid_t record_new_thread(const unsigned char *bytes, size_t len)
{
    uint32_t pids[2];

    if (len < sizeof pids)
        return 0;
    memcpy(pids, bytes, sizeof pids);
    return pids[0] == pids[1] ? (pid_t)pids[0] : 0;
}

uint64_t record_lost(const unsigned char *bytes, size_t len)
{
    struct rest rest = {bytes, len};
    uint64_t event, lost;

    return take_u64(&rest, &event) && take_u64(&rest, &lost) ? lost : 0;
}
