/* Turns linker names into those of the source: C++ (Itanium ABI) and Rust (legacy and v0). */
#pragma once

#include "base/arena.h"

enum {
    DEMANGLE_INPUT_MAX =
        8 << 10, /* the demangler's stack grows with it; longer names are not demangled */
    DEMANGLE_OUTPUT_MAX =
        64 << 10, /* a short name can stand for a very long one, which is not demangled */
};

/* True if a name may be mangled, by its beginning. */
static inline bool demangle_may(const char *name)
{
    return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

/*
 * Returns the demangled name, in the arena, or name itself if it is not
 * mangled, too long, or malformed. NULL: out of memory.
 */
const char *demangle(struct arena *arena, const char *name);
