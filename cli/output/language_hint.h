/*
 * Where a process has a heap that a language's run-time system collects or divides by itself:
 * what that language's own tool would show of it, and the command.
 */
#pragma once

#include "attach/target.h"
#include "base/json.h"
#include "run/explain/heap_kind.h"

struct language_hint {
    const char *shows; /* "how many objects of each class there are" */
    const char *needs; /* what must be so, or what it costs the process; NULL: nothing */
    char command[160];
};

/* False: there is no such heap among the kinds, or no tool is known. */
bool language_hint(unsigned kinds, const struct target *target, struct language_hint *hint);

enum { LANGUAGE_JIT_TEXT = 96 };

/*
 * Writes what gives names to the code that it makes at run time: "run jcmd 71 Compiler.perfmap".
 * NULL: that is not known of any of the kinds.
 */
const char *language_jit_text(unsigned kinds, const struct target *target,
                              char out[LANGUAGE_JIT_TEXT]);

/* Adds the object `name`, or null. */
void language_hint_json(const struct language_hint *hint, bool known, const char *name,
                        struct json *json);
