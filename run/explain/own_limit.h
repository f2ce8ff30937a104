/* The limit that a program itself keeps its data below: growth up to that is no leak. */
#pragma once

#include "attach/memory.h"
#include "run/explain/heap_kind.h"

/* What grows up to it. */
enum own_limit_of {
    OWN_LIMIT_NONE, /* no limit is known */
    OWN_LIMIT_ITEMS,
    OWN_LIMIT_KEYS,
    OWN_LIMIT_STORAGE,
    OWN_LIMIT_JAVA,
    OWN_LIMIT_JAVASCRIPT,
    OWN_LIMITS,
};

struct own_limit {
    enum own_limit_of of;
    const char *option;   /* "-m" */
    const char *variable; /* of the environment that has it; NULL: the command line, or none */
    uint64_t bytes;       /* 0: only the program itself tells */
    bool is_default;      /* no option sets it */
};

/* From the command line and the environment that the process was started with. */
struct own_limit own_limit_find(unsigned kinds, const struct target *target, struct memory *memory);

/* True if what counts against it is about the memory that the process has of its own. */
bool own_limit_is_of_memory(const struct own_limit *limit);
