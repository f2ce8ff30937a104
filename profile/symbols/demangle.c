#include "profile/symbols/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

/*
 * Without the library's own limit, which refuses names of more than 1024 bytes;
 * DEMANGLE_INPUT_MAX replaces it.
 */
enum { OPTIONS = DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT };

struct output {
    jmp_buf full;
    size_t len;
    char text[DEMANGLE_OUTPUT_MAX];
};

/*
 * Back references double a name at each step, and a callback has no other way
 * to stop that. The demangler's memory is on its stack, so nothing leaks.
 */
static void output_add(const char *text, size_t len, void *ctx)
{
    struct output *output = ctx;

    if (len > sizeof output->text - output->len)
        longjmp(output->full, 1);
    memcpy(output->text + output->len, text, len);
    output->len += len;
}

typedef int demangler(const char *name, int options, demangle_callbackref add, void *ctx);

static bool try_demangler(demangler *run, const char *name, struct output *output)
{
    output->len = 0;
    if (setjmp(output->full))
        return false;
    return run(name, OPTIONS, output_add, output) && output->len > 0;
}

const char *demangle(struct arena *arena, const char *name)
{
    AUTO_FREE struct output *output = NULL;

    if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R') ||
        strnlen(name, DEMANGLE_INPUT_MAX) == DEMANGLE_INPUT_MAX)
        return name;
    output = malloc(sizeof *output);
    if (!output)
        return NULL;
    /* Rust's legacy names are also valid C++ names, but not vice versa. */
    if (!try_demangler(rust_demangle_callback, name, output) &&
        !try_demangler(cplus_demangle_v3_callback, name, output))
        return name;
    return arena_string(arena, output->text, output->len);
}
