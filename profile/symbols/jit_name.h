/* Names that JIT compilers give to their code. */
#pragma once

#include "base/arena.h"
#include "profile/symbols/symbols.h"

/*
 * Fills a line from a name of a perf map, which must live as long as the line.
 * V8 writes "JS:*handle /app/server.js:12:20": the function, how it is compiled, and
 * where it begins (src/logging/code-events.h); one function has several such names.
 * Other names are demangled.
 */
void jit_name_line(struct arena *arena, const char *name, struct symbol_line *line);
