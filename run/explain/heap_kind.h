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

/*
 * Returns the run-time system of a language that keeps its objects in a heap of its own;
 * HEAP_KINDS: there is none.
 */
enum heap_kind heap_kinds_language(unsigned kinds);
/*
 * Returns the run-time system that collects garbage, in whose heap a growth may be no growth;
 * HEAP_KINDS: there is none.
 */
enum heap_kind heap_kinds_collector(unsigned kinds);
/*
 * Finds an option among words that each end with a NUL: "--size=8" or "--size" "8" for "--size",
 * "-m8" or "-m" "8" for "-m"; "_" in a word counts as "-". True: *value is what follows it, of no
 * other characters than `chars`. The last one counts.
 */
bool words_option(const char *words, size_t len, const char *option, const char *chars, char *value,
                  size_t size);
/* Does the same with the command line of a process. */
bool command_option(const struct target *target, const char *option, const char *chars, char *value,
                    size_t size);
/* Returns a bit 1 << kind for each that the names of files show: without Go. */
unsigned heap_kinds_of_modules(const struct modules *modules);
/*
 * Returns a bit 1 << kind for each. The C library counts only if no library replaces its
 * allocator. Opens the program's file, to find the tables of Go in it.
 */
unsigned heap_kinds_find(const struct modules *modules, const struct target *target,
                         struct memory *memory);
