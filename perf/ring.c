#include "perf/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t ring_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static int try_ring(struct ring *ring, int fd, size_t size)
{
    size_t first = ring_page_size();
    void *at = mmap(NULL, first + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED)
        return -errno;
    ring->page = at;
    ring->bytes = (const unsigned char *)at + first;
    ring->size = size;
    return 0;
}

int ring_map(struct ring *ring, int fd, size_t size, size_t least)
{
    int rc = -EPERM;

    *ring = (struct ring){.whole = malloc(RECORD_MAX)};
    if (!ring->whole)
        return -ENOMEM;
    if (least < ring_page_size())
        least = ring_page_size();
    for (; size >= least; size /= 2) {
        rc = try_ring(ring, fd, size);
        if (rc != -EPERM && rc != -ENOMEM)
            break;
    }
    if (rc)
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

/* Finds the bytes behind a header, and copies them only if they are split. */
static const unsigned char *find_body(struct ring *ring, uint64_t position, size_t len)
{
    size_t at = position & (ring->size - 1);

    if (len <= ring->size - at)
        return ring->bytes + at;
    copy_out(ring, position, ring->whole, len);
    return ring->whole;
}

bool ring_next(struct ring *ring, uint64_t *position, struct ring_record *record)
{
    uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t left = head - *position;
    struct perf_event_header header;

    if (left == 0)
        return false;
    if (left <= ring->size && left >= sizeof header) {
        copy_out(ring, *position, &header, sizeof header);
        if (header.size >= sizeof header && header.size <= left) {
            record->type = header.type;
            record->len = header.size - sizeof header;
            record->body = find_body(ring, *position + sizeof header, record->len);
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
