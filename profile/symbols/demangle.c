#include "profile/symbols/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

/*
 * The library's own limit of recursion makes it refuse C++ names of more than 1024 bytes. What
 * longer ones may cost is limited here, and by the child that demangles.
 */
enum {
    OPTIONS = DMGL_PARAMS | DMGL_ANSI,
    LIMITED_MAX = 1024,
    TEMPLATE_PRODUCT_MAX = 1 << 16,
    LIFETIME_DIGITS_MAX = 2,
};

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
    if (len)
        memcpy(output->text + output->len, text, len);
    output->len += len;
}

typedef int demangler(const char *name, int options, demangle_callbackref add, void *ctx);

static bool try_demangler(demangler *run, int options, const char *name, struct output *output)
{
    output->len = 0;
    if (setjmp(output->full))
        return false;
    return run(name, options, output_add, output) && output->len > 0;
}

/*
 * The library counts the lifetimes of a binder, "G" and a number of base 62, one by one, up to
 * 2^64 of them (rust-demangle.c, demangle_binder). It stands in a function or a dyn type.
 */
static bool has_many_lifetimes(const char *name)
{
    for (const char *at = name; (at = strchr(at, 'G')); at++) {
        size_t digits = 0;
        while (isalnum((unsigned char)at[1 + digits]))
            digits++;
        if ((at[-1] == 'F' || at[-1] == 'D') && digits > LIFETIME_DIGITS_MAX &&
            at[1 + digits] == '_')
            return true;
    }
    return false;
}

static bool demangle_cplusplus(const char *name, struct output *output)
{
    const int more = strlen(name) > LIMITED_MAX ? DMGL_NO_RECURSE_LIMIT : 0;

    /*
     * The library puts an array of 16-byte elements on its stack: the templates times the
     * references to their parameters, each counted twice if a substitution repeats it
     * (d_count_templates_scopes). Every I may begin the arguments of a template, and RT, OT, RS, OS
     * such a reference.
     */
    size_t templates = 0, references = 0;
    for (const char *at = name; *at; at++) {
        templates += *at == 'I';
        references += (*at == 'R' || *at == 'O') && (at[1] == 'T' || at[1] == 'S');
    }
    return templates * references <= TEMPLATE_PRODUCT_MAX &&
           try_demangler(cplus_demangle_v3_callback, OPTIONS | more, name, output);
}

static bool demangle_rust(const char *name, struct output *output)
{
    return !(name[1] == 'R' && has_many_lifetimes(name)) &&
           try_demangler(rust_demangle_callback, OPTIONS, name, output);
}

const char *demangle(struct arena *arena, const char *name)
{
    AUTO_FREE struct output *output = NULL;

    if (!demangle_may(name) || strnlen(name, DEMANGLE_INPUT_MAX) == DEMANGLE_INPUT_MAX)
        return name;
    output = malloc(sizeof *output);
    if (!output)
        return NULL;
    /* Rust's legacy names are also valid C++ names, but not vice versa. */
    if (!demangle_rust(name, output) && !demangle_cplusplus(name, output))
        return name;
    return arena_string(arena, output->text, output->len);
}
