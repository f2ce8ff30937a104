/*
 * The search of thread_pointers_read, shared by its ways: the lists of glibc and musl
 * (thread_pointers.c), and the stacks. Each way offers addresses; what is not proven is refused.
 */
#pragma once

#include "attach/target.h"
#include "elf/thread_pointers.h"

enum {
    THREAD_ID_UNKNOWN = 0,
    THREAD_ID_MAX = 1024, /* limit of its distance from the thread pointer, bytes */
};

struct searched_thread {
    struct thread thread;
    pid_t id; /* in the innermost pid namespace: as the C library knows it */
    remote_addr pointer;
};

struct thread_search {
    const struct modules *modules;
    const struct target *target;
    struct memory *memory;
    struct searched_thread *list; /* ascending by id */
    size_t count;
    size_t found;        /* with a pointer */
    size_t id_offset;    /* of the thread's id from its thread pointer, or THREAD_ID_UNKNOWN */
    uint64_t bytes_left; /* budget of the searches through memory */
};

/* Returns the thread with that id; NULL: there is none. */
struct searched_thread *search_thread(const struct thread_search *search, pid_t id);

/*
 * Takes the pointer if it points to itself and the id at id_offset is one of the
 * process's. Returns the thread that it belongs to; NULL: refused.
 */
struct searched_thread *search_offer(struct thread_search *search, remote_addr pointer);

/* The ring of musl, from each descriptor that is known. */
void search_musl(struct thread_search *search);
/* Above the stack pointers of sleeping threads; the first thread's in writable memory. */
void search_stacks(struct thread_search *search);
