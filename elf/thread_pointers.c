#include "elf/thread_pointers.h"

#include <stdlib.h>
#include <string.h>

bool thread_pointers_read(struct thread_pointers *pointers, const struct modules *modules,
                          const struct target *target, struct memory *memory)
{
    (void)modules, (void)target, (void)memory;
    memset(pointers, 0, sizeof *pointers);
    return false;
}

void thread_pointers_free(struct thread_pointers *pointers)
{
    free(pointers->list);
    memset(pointers, 0, sizeof *pointers);
}

remote_addr thread_pointer_of(const struct thread_pointers *pointers, pid_t tid)
{
    for (size_t i = 0; i < pointers->count; i++)
        if (pointers->list[i].tid == tid)
            return pointers->list[i].pointer;
    return 0;
}
