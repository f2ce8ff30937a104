/* Which allocators and heaps a process has besides jemalloc, by the files that it has mapped. */
#pragma once

#include "elf/modules.h"

enum heap_kind {
    HEAP_GLIBC,
    HEAP_MUSL,
    HEAP_TCMALLOC,
    HEAP_MIMALLOC,
    HEAP_GO,
    HEAP_JVM,
    HEAP_V8,
    HEAP_DOTNET,
    HEAP_PYTHON,
    HEAP_RUBY,
    HEAP_PHP,
    HEAP_ERLANG,
    HEAP_KINDS,
};

/* Returns a bit 1 << kind for each that the names of files show: without Go. */
unsigned heap_kinds_of_modules(const struct modules *modules);
/*
 * Returns a bit 1 << kind for each. The C library counts only if no library replaces its
 * allocator. Opens the program's file, to find the tables of Go in it.
 */
unsigned heap_kinds_find(const struct modules *modules, const struct target *target,
                         struct memory *memory);
