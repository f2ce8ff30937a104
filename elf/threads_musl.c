/*
 * musl's threads: struct pthread begins with a pointer to itself, that to the TLS
 * blocks (dtv), and the links of a ring, prev and next (pthread_impl.h, since 1.1.22).
 */
#include "elf/thread_search.h"

enum { RING_SLACK = 64 };

struct musl_thread {
    remote_addr self, dtv, prev, next;
};

static void walk_ring(struct thread_search *search, remote_addr start)
{
    size_t left = search->count * 2 + RING_SLACK;
    struct musl_thread at, next;

    if (!memory_read(search->memory, start, &at, sizeof at) || at.self != start)
        return;
    for (remote_addr node = start; left-- && at.next != start; at = next) {
        if (!memory_read(search->memory, at.next, &next, sizeof next) || next.self != at.next ||
            next.prev != node)
            return;
        node = at.next;
        search_offer(search, node);
    }
}

void search_musl(struct thread_search *search)
{
    for (size_t i = 0; i < search->count && search->found < search->count; i++)
        if (search->list[i].pointer)
            walk_ring(search, search->list[i].pointer);
}
