#include "elf/thread_pointers.h"
#include "base/search.h"
#include "elf/thread_search.h"
#include "host/task.h"

#include <stdlib.h>
#include <string.h>

enum { SEARCH_BYTES = 64 << 20 };

struct searched_thread *search_thread(const struct thread_search *search, pid_t id)
{
    struct searched_thread *list = search->list;
    size_t at = SEARCH_FIRST(i, search->count, list[i].id >= id);

    return at < search->count && list[at].id == id ? &list[at] : NULL;
}

struct searched_thread *search_offer(struct thread_search *search, remote_addr pointer)
{
    struct searched_thread *owner;
    remote_addr self = 0;
    int32_t id = 0;

    if (!pointer || pointer % 8 || search->id_offset == THREAD_ID_UNKNOWN)
        return NULL;
    if (!memory_read(search->memory, pointer, &self, sizeof self) || self != pointer ||
        !memory_read(search->memory, pointer + search->id_offset, &id, sizeof id) || id <= 0)
        return NULL;
    owner = search_thread(search, id);
    if (owner && !owner->pointer) {
        owner->pointer = pointer;
        search->found++;
    }
    return owner;
}

static int compare_ids(const void *a, const void *b)
{
    pid_t x = ((const struct searched_thread *)a)->id, y = ((const struct searched_thread *)b)->id;

    return (x > y) - (x < y);
}

/* Returns the thread's id in its own pid namespace. */
static pid_t innermost_id(const struct target *target, const struct thread *thread)
{
    struct proc_status status;

    if (target->status.ns_pid_count <= 1)
        return thread->tid;
    if (thread_status(target->proc, target->pid, thread->tid, &status))
        return 0;
    return status.ns_pid;
}

static bool list_searched(struct thread_search *search)
{
    struct threads all;
    struct fault fault;

    if (search->target->record || threads_list(&all, search->target, &fault) != FAULT_NONE)
        return false;
    search->list = calloc(all.count + 1, sizeof *search->list);
    for (size_t i = 0; search->list && i < all.count; i++)
        search->list[search->count++] = (struct searched_thread){
            .thread = all.list[i], .id = innermost_id(search->target, &all.list[i])};
    threads_free(&all);
    if (search->count)
        qsort(search->list, search->count, sizeof *search->list, compare_ids);
    return search->count > 0;
}

static int compare_tids(const void *a, const void *b)
{
    pid_t x = ((const struct thread_pointer *)a)->tid, y = ((const struct thread_pointer *)b)->tid;

    return (x > y) - (x < y);
}

static bool take_found_pointers(struct thread_pointers *pointers,
                                const struct thread_search *search)
{
    pointers->list = calloc(search->found + 1, sizeof *pointers->list);
    for (size_t i = 0; pointers->list && i < search->count; i++)
        if (search->list[i].pointer)
            pointers->list[pointers->count++] =
                (struct thread_pointer){search->list[i].thread.tid, search->list[i].pointer};
    if (pointers->count)
        qsort(pointers->list, pointers->count, sizeof *pointers->list, compare_tids);
    return pointers->count > 0;
}

bool thread_pointers_read(struct thread_pointers *pointers, const struct modules *modules,
                          const struct target *target, struct memory *memory)
{
    struct thread_search search = {
        .modules = modules, .target = target, .memory = memory, .bytes_left = SEARCH_BYTES};
    bool found = false;

    memset(pointers, 0, sizeof *pointers);
    if (list_searched(&search)) {
        search_glibc(&search);
        if (search.found < search.count)
            search_stacks(&search);
        if (search.found < search.count)
            search_musl(&search);
        found = take_found_pointers(pointers, &search);
    }
    free(search.list);
    return found;
}

void thread_pointers_free(struct thread_pointers *pointers)
{
    free(pointers->list);
    memset(pointers, 0, sizeof *pointers);
}

remote_addr thread_pointer_of(const struct thread_pointers *pointers, pid_t tid)
{
    const struct thread_pointer *list = pointers->list;
    size_t at = SEARCH_FIRST(i, pointers->count, list[i].tid >= tid);

    return at < pointers->count && list[at].tid == tid ? list[at].pointer : 0;
}
