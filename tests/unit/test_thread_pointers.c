/*
 * Thread pointers and thread-local blocks: of the test's own threads, compared with what each of
 * them knows itself; and of descriptors and relocations made by hand.
 */
#include "check.h"
#include "elf/thread_pointers.h"
#include "elf/thread_search.h"
#include "inject/refs.h"
#include "own.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

enum { THREADS = 12 };

static __thread uint64_t marked = 42;
static sem_t ready, leave;

static struct known {
    pid_t tid;
    remote_addr pointer, marked;
} known[THREADS + 1];

static void note_own(size_t nth)
{
    known[nth] = (struct known){gettid(), (remote_addr)(uintptr_t)__builtin_thread_pointer(),
                                (remote_addr)(uintptr_t)&marked};
}

static void *thread_main(void *nth)
{
    note_own((size_t)(uintptr_t)nth);
    sem_post(&ready);
    while (sem_wait(&leave))
        ;
    return NULL;
}

static bool start_threads(pthread_t threads[THREADS])
{
    note_own(THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)i))
            return false;
        while (sem_wait(&ready))
            ;
    }
    return true;
}

static void check_block(const struct own *own, const struct known *thread)
{
    const struct module *module = modules_at(&own->modules, (remote_addr)(uintptr_t)&check_block);
    struct memory memory = own->memory;
    struct tls_block block;
    remote_addr at;

    if (!CHECK(module && tls_find(&block, module, &memory, &arch_tls_relocations)))
        return;
    at = tls_of_thread(&block, thread->pointer, &memory);
    CHECK(at && thread->marked >= at && thread->marked - at < block.size);
}

static void test_own_threads(void)
{
    struct thread_pointers pointers;
    pthread_t threads[THREADS];
    struct own own;

    if (!CHECK(start_threads(threads)) || !CHECK(own_open(&own)))
        return;
    CHECK(thread_pointers_read(&pointers, &own.modules, &own.target, &own.memory));
    CHECK(pointers.count >= THREADS + 1);
    for (size_t i = 0; i <= THREADS; i++) {
        CHECK(thread_pointer_of(&pointers, known[i].tid) == known[i].pointer);
        check_block(&own, &known[i]);
    }
    CHECK(!thread_pointer_of(&pointers, 1));
    thread_pointers_free(&pointers);
    own_close(&own);
    for (size_t i = 0; i < THREADS; i++)
        sem_post(&leave);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- made by hand ---- */

#define BASE UINT64_C(0x7000000000)

enum { BLOCK = 256, BLOCKS = 5, ID_AT = 48 };

static struct block {
    uint64_t self, dtv, prev, next, more[BLOCK / 8 - 4];
} blocks[BLOCKS];
static size_t reads;

static bool read_blocks(void *ctx, remote_addr addr, void *buf, size_t len)
{
    (void)ctx;
    reads++;
    errno = EFAULT;
    if (addr < BASE || addr - BASE > sizeof blocks || len > sizeof blocks - (addr - BASE))
        return false;
    memcpy(buf, (const char *)blocks + (addr - BASE), len);
    return true;
}

static remote_addr block_at(size_t nth)
{
    return BASE + nth % BLOCKS * BLOCK;
}

static void make_ring(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        memset(&blocks[i], 0, sizeof blocks[i]);
        blocks[i].self = block_at(i);
        blocks[i].prev = block_at(i + BLOCKS - 1);
        blocks[i].next = block_at(i + 1);
        memcpy((char *)&blocks[i] + ID_AT, &(int){(int)(10 + i)}, sizeof(int));
    }
}

/* Returns the number of pointers that are found from the first one. */
static size_t found_in_ring(void)
{
    static const struct memory_source source = {.read = read_blocks};
    struct searched_thread list[BLOCKS] = {0};
    struct memory memory;
    struct thread_search search = {
        .memory = &memory, .list = list, .count = BLOCKS, .id_offset = ID_AT};

    for (size_t i = 0; i < BLOCKS; i++)
        list[i].id = (pid_t)(10 + i);
    memory_open_source(&memory, &source);
    if (search_offer(&search, block_at(0)))
        search_musl(&search);
    memory_close(&memory);
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(!list[i].pointer || list[i].pointer == block_at(i));
    return search.found;
}

static void test_ring(void)
{
    make_ring();
    CHECK(found_in_ring() == BLOCKS);
    blocks[2].self = block_at(1); /* no descriptor: the ring ends before it */
    CHECK(found_in_ring() == 2);
    make_ring();
    blocks[3].prev = block_at(1); /* the ring changes: so far, it is right */
    CHECK(found_in_ring() == 3);
    make_ring();
    blocks[4].next = block_at(4); /* never returns to the first one */
    reads = 0;
    CHECK(found_in_ring() == BLOCKS && reads < 2000);
    make_ring();
    memset((char *)&blocks[1] + ID_AT, 0, sizeof(int)); /* it has ended */
    CHECK(found_in_ring() == BLOCKS - 1);
    make_ring();
    blocks[0].self++;
    CHECK(found_in_ring() == 0);
}

int main(void)
{
    sem_init(&ready, 0, 0);
    sem_init(&leave, 0, 0);
    test_own_threads();
    test_ring();
    return check_result();
}
