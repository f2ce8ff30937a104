/*
 * The confined child that reads the files of modules, which strangers have made, and demangles
 * names (host/confined.h). It serves the requests of profile/symbols/reader.h.
 */
#pragma once

#include "profile/symbols/symbols.h"

struct child_module {
    enum symbols_trust trust;
    bool lines; /* files, lines and inlined calls are wanted, too */
};

/* The child has a copy of it. */
struct child_work {
    const struct child_module *modules;
    size_t count;
};

/* For struct confined_work; ctx: a struct child_work. */
void child_prepare(void *ctx);
void child_serve(void *ctx);
