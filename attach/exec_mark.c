#include "attach/exec_mark.h"
#include "host/task.h"

#include <elf.h>
#include <string.h>

/* Bytes: more than 30,000 arguments and variables, whose addresses come before the vector. */
enum { STACK_BYTES = 256 << 10 };

/*
 * The stack of a new program begins with argc, argv, NULL, envp, NULL and the auxiliary
 * vector (fs/binfmt_elf.c, create_elf_tables). argc, which may have the value of AT_RANDOM,
 * is skipped; all words up to the vector's are addresses or NULL.
 */
static remote_addr find_random(const uint64_t *words, size_t count, remote_addr start)
{
    const remote_addr end = start + count * sizeof *words - EXEC_MARK_BYTES;

    for (size_t i = 1; i + 1 < count; i++)
        if (words[i] == AT_RANDOM && words[i + 1] > start && words[i + 1] <= end)
            return words[i + 1];
    return 0;
}

void exec_mark_read(struct exec_mark *mark, const struct target *target, struct memory *memory)
{
    static const unsigned char none[EXEC_MARK_BYTES];
    AUTO_FREE unsigned char *stack = malloc(STACK_BYTES);
    struct proc_stat stat;

    memset(mark, 0, sizeof *mark);
    if (!stack || process_stat(target->proc, target_via(target), &stat) != 0 || !stat.stack_start)
        return;
    mark->stack_start = stat.stack_start;
    memory_read_pages(memory, stat.stack_start, stack, STACK_BYTES);
    mark->random_at = find_random((const uint64_t *)(const void *)stack,
                                  STACK_BYTES / sizeof(uint64_t), stat.stack_start);
    if (mark->random_at)
        memcpy(mark->random, stack + (mark->random_at - stat.stack_start), EXEC_MARK_BYTES);
    if (memcmp(mark->random, none, EXEC_MARK_BYTES) == 0) /* the process has cleared them */
        mark->random_at = 0;
}

bool exec_mark_matches(const struct exec_mark *mark, struct memory *memory)
{
    unsigned char bytes[EXEC_MARK_BYTES];

    return mark->random_at && memory_read(memory, mark->random_at, bytes, sizeof bytes) &&
           memcmp(bytes, mark->random, sizeof bytes) == 0;
}
