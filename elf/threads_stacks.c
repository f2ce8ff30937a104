/*
 * Thread pointers without a list. A C library puts a thread's control block at the
 * upper end of its stack, so it is the first one above the stack pointer. The first
 * thread's is in memory that the loader or the program has allocated.
 */
#include "elf/thread_search.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 64 << 10,    /* read at once */
    ABOVE_MAX = 4 << 20, /* bytes above a stack pointer that are searched */
    ENDS = 256 << 10,    /* bytes of each end of a mapping that are searched for the first */
    ID_ALONE_MIN = 300,  /* a smaller id may be any number */
    OFFSETS = THREAD_ID_MAX / 4,
};

/* Control blocks that were seen; [i]: the id of how many of them was at offset 4 * i. */
struct id_votes {
    uint32_t at[OFFSETS];
    uint32_t blocks;
};

struct block_visit {
    struct thread_search *search;
    /* Called for each word that points to itself; true: it was the one, end the search. */
    bool (*visit)(struct block_visit *visit, remote_addr addr);
    const struct searched_thread *thread;
    struct id_votes *votes;
    remote_addr end;    /* of what can be read */
    unsigned char *buf; /* PIECE bytes */
};

/* Visits [start, end), from the lower to the upper end. */
static bool visit_blocks(struct block_visit *visit, remote_addr start, remote_addr end)
{
    start = (start + 7) & ~(remote_addr)7;
    visit->end = end;
    for (remote_addr at = start; at < end;) {
        size_t n = PIECE - at % PIECE;
        n = end - at < n ? (size_t)(end - at) : n;
        if (visit->search->bytes_left < n)
            return false;
        visit->search->bytes_left -= n;
        if (!memory_read(visit->search->memory, at, visit->buf, n))
            return false;
        for (size_t i = 0; i + sizeof(remote_addr) <= n; i += sizeof(remote_addr)) {
            remote_addr word;
            memcpy(&word, visit->buf + i, sizeof word);
            if (word == at + i && visit->visit(visit, word))
                return true;
        }
        at += n;
    }
    return false;
}

static bool is_block_memory(const struct vma *vma)
{
    return vma && vma->prot & MAP_WRITE;
}

/* Visits what is above the stack pointer of a sleeping thread, but the first. */
static bool visit_stack(struct block_visit *visit, const struct searched_thread *thread)
{
    struct proc_syscall at;
    const struct vma *vma;
    remote_addr end;

    if (thread->thread.tid == visit->search->target->pid ||
        !thread_read_syscall(&thread->thread, visit->search->target, &at) || !at.asleep)
        return false;
    vma = modules_vma_at(visit->search->modules, at.sp);
    if (!is_block_memory(vma) || vma->stack)
        return false;
    end = vma->end - at.sp > ABOVE_MAX ? at.sp + ABOVE_MAX : vma->end;
    visit->thread = thread;
    return visit_blocks(visit, at.sp, end);
}

/* Visits both ends of each writable mapping but the first stack. */
static void visit_writable(struct block_visit *visit)
{
    const struct modules *modules = visit->search->modules;

    for (size_t i = 0; i < modules->vma_count; i++) {
        const struct vma *vma = &modules->vmas[i];
        remote_addr half = (vma->end - vma->start) / 2, part = half < ENDS ? half : ENDS;
        if (!is_block_memory(vma) || vma->stack)
            continue;
        if (visit_blocks(visit, vma->start, vma->start + part) ||
            visit_blocks(visit, vma->end - part, vma->end))
            return;
    }
}

/* ---- where the id is ---- */

static bool vote_for_id(struct block_visit *visit, remote_addr addr)
{
    int32_t words[OFFSETS] = {0};
    size_t left = (size_t)(visit->end - addr);
    bool has_id = false;

    if (!memory_read(visit->search->memory, addr, words, left < sizeof words ? left : sizeof words))
        return false;
    for (size_t i = 2; i < OFFSETS; i++)
        has_id |= words[i] == visit->thread->id;
    for (size_t i = 2; has_id && i < OFFSETS; i++)
        visit->votes->at[i] += words[i] == visit->thread->id;
    visit->votes->blocks += has_id;
    return has_id;
}

/*
 * The first thread of glibc points to itself at two places; in musl it is its own
 * neighbour in the ring, if it is alone. The word between them is another pointer.
 */
static bool vote_for_first(struct block_visit *visit, remote_addr addr)
{
    remote_addr words[3];

    if (memory_read(visit->search->memory, addr, words, sizeof words) && words[2] == addr &&
        words[1] != addr && words[1])
        vote_for_id(visit, addr);
    return false;
}

/* Two threads must agree; one is enough if its id is no small number and at one place only. */
static size_t elect_offset(const struct id_votes *votes, const struct thread_search *search)
{
    size_t chosen = THREAD_ID_UNKNOWN;

    for (size_t i = 0; i < OFFSETS; i++) {
        if (votes->at[i] < votes->blocks)
            continue;
        if (chosen != THREAD_ID_UNKNOWN)
            return THREAD_ID_UNKNOWN;
        chosen = i * 4;
    }
    if (votes->blocks < 2 && search->list[0].id < ID_ALONE_MIN)
        return THREAD_ID_UNKNOWN;
    return votes->blocks ? chosen : THREAD_ID_UNKNOWN;
}

static void learn_offset(struct block_visit *visit)
{
    struct thread_search *search = visit->search;
    struct id_votes votes = {0};

    visit->votes = &votes;
    visit->visit = vote_for_id;
    for (size_t i = 0; i < search->count && votes.blocks < 8; i++)
        visit_stack(visit, &search->list[i]);
    if (search->count == 1) {
        visit->visit = vote_for_first;
        visit->thread = &search->list[0];
        visit_writable(visit);
    }
    search->id_offset = elect_offset(&votes, search);
}

/* ---- the pointers ---- */

static bool offer_block(struct block_visit *visit, remote_addr addr)
{
    return search_offer(visit->search, addr) == visit->thread;
}

void search_stacks(struct thread_search *search)
{
    struct block_visit visit = {.search = search, .buf = malloc(PIECE)};

    if (visit.buf && search->id_offset == THREAD_ID_UNKNOWN)
        learn_offset(&visit);
    if (visit.buf && search->id_offset != THREAD_ID_UNKNOWN) {
        visit.visit = offer_block;
        for (size_t i = 0; i < search->count; i++)
            if (!search->list[i].pointer)
                visit_stack(&visit, &search->list[i]);
        visit.thread = search_thread(search, target_ns_pid(search->target));
        if (visit.thread && !visit.thread->pointer)
            visit_writable(&visit);
    }
    free(visit.buf);
}
