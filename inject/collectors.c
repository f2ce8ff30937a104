#include "inject/collectors.h"
#include "elf/function_names.h"
#include "elf/view.h"
#include "inject/faults.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
    LIBGC_SUSPEND = SIGPWR,  /* libgc: gcconfig.h, SIG_SUSPEND */
    LIBGC_RESTART = SIGXCPU, /* and SIG_THR_RESTART */
    PATTERN_MAX = 64,
};

#define BIT(signal) (1ull << ((signal)-1))

enum kind { KIND_LIBGC, KIND_D, KIND_MONO, KIND_SBCL, KINDS };

static const char *const what_it_does[KINDS] = {
    [KIND_LIBGC] = "uses libgc",
    [KIND_D] = "uses D's runtime",
    [KIND_MONO] = "runs Mono",
    [KIND_SBCL] = "runs SBCL",
};

/* The file names of such libraries, which count whatever signals the process catches. */
static const char *const libraries[] = {
    "libgc.so",   "libgdruntime", "libgphobos", "libdruntime",
    "libphobos2", "libmono",      "mono",       "sbcl",
};

/* Names by which such a library is recognized. */
static const struct name_pattern signs[KINDS] = {
    [KIND_LIBGC] = NAME_IS("GC_pthread_create"),
    [KIND_D] = NAME_IS("thread_suspendHandler"),
    [KIND_MONO] = NAME_IS("mono_jit_init"),
    [KIND_SBCL] = NAME_IS("sig_stop_for_gc_handler"),
};

static const struct name_query name_query = {.patterns = signs, .count = KINDS};

struct finder {
    const struct modules *modules;
    const struct target *target;
    struct memory *memory;
    const struct module *module; /* the module that is examined */
    enum kind found;             /* KINDS: none */
};

/* ---- names ---- */

static bool visit_name(void *ctx, const char *name, const struct symbol *symbol)
{
    struct finder *finder = ctx;

    (void)symbol;
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(name, signs[i].text) == 0)
            finder->found = (enum kind)i;
    return finder->found == KINDS;
}

/* Four look-ups in the module's hash table. */
static void look_at_exports(struct finder *finder)
{
    struct image image;
    struct symbol symbol;

    if (!image_open(&image, finder->memory, finder->module->start))
        return;
    for (size_t i = 0; i < KINDS && finder->found == KINDS; i++)
        if (image_symbol(&image, signs[i].text, &symbol))
            finder->found = (enum kind)i;
}

static bool has_library_name(const struct module *module)
{
    for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
        if (strncmp(module_name(module), libraries[i], strlen(libraries[i])) == 0)
            return true;
    return false;
}

static void look_by_library(struct finder *finder)
{
    if (has_library_name(finder->module))
        look_at_exports(finder);
}

static void look_in_file(struct finder *finder)
{
    struct function_names names;
    enum symbol_place place;

    if (function_names_open(&names, finder->module, finder->target, finder->memory))
        function_names_visit_file(&names, &name_query, visit_name, finder, &place);
    function_names_close(&names);
}

typedef void (*module_look)(struct finder *finder);

static void each_module(struct finder *finder, module_look look)
{
    for (size_t i = 0; i < finder->modules->count && finder->found == KINDS; i++) {
        finder->module = &finder->modules->list[i];
        if (finder->module->exec_start != finder->module->exec_end && finder->module->inode)
            look(finder);
    }
}

/* ---- programs with a collector linked in, without names ---- */

static bool visit_text(void *ctx, const struct piece *piece)
{
    static const char text[] = "Cannot set SIG_SUSPEND handler"; /* libgc: pthread_stop_world.c */
    struct finder *finder = ctx;

    if (memmem(piece->bytes, piece->len, text, sizeof text - 1))
        finder->found = KIND_LIBGC;
    return finder->found == KINDS;
}

static void look_for_text(struct finder *finder)
{
    struct view view;

    if (!view_open(&view, finder->module, finder->target, finder->memory))
        return;
    view_scan_segments(&view, PF_R | PF_W, PF_R, PATTERN_MAX, visit_text, finder);
    view_close(&view);
}

/* Every D object has a section with this name (druntime: rt/sections_elf_shared.d). */
static void look_at_program(struct finder *finder)
{
    struct sections sections;
    Elf64_Shdr section;
    int fd;

    finder->module = &finder->modules->list[0]; /* the lowest one: the program itself */
    fd = module_open(finder->module, finder->target, finder->memory);
    if (fd < 0)
        return;
    if (sections_open(&sections, fd) && section_named(&sections, "minfo", &section))
        finder->found = KIND_D;
    close(fd);
}

/* ---- which collector ---- */

static size_t count_signals(uint64_t signals)
{
    return (size_t)__builtin_popcountll(signals);
}

/*
 * A library is recognized by its name. Other modules are examined only if the
 * process catches two signals that a collector may use, and the symbol tables
 * of their files are read only if the signals are those of a collector:
 * ordinary targets must not wait for that.
 */
static void find_collector(struct finder *finder)
{
    const uint64_t caught = finder->target->status.sig_caught;
    const uint64_t libgc = BIT(LIBGC_SUSPEND) | BIT(LIBGC_RESTART);
    const uint64_t usual = libgc | BIT(SIGUSR1) | BIT(SIGUSR2) | ~(BIT(REALTIME_FIRST) - 1);

    each_module(finder, look_by_library);
    if (count_signals(caught & usual) >= 2)
        each_module(finder, look_at_exports);
    if ((caught & libgc) == libgc) {
        each_module(finder, look_in_file);
        each_module(finder, look_for_text);
    }
    if (finder->found == KINDS && count_signals(caught & usual) >= 2 && finder->modules->count)
        look_at_program(finder);
}

fault_code collectors_refuse(const struct modules *modules, const struct target *target,
                             struct memory *memory, struct fault *fault)
{
    struct finder finder = {.modules = modules, .target = target, .memory = memory, .found = KINDS};

    find_collector(&finder);
    if (finder.found == KINDS)
        return FAULT_NONE;
    return fault_set(fault, FAULT_UNSUPPORTED, 0, "plan",
                     "it %s, which stops threads for its garbage collector at any moment; a call "
                     "could hang it for good",
                     what_it_does[finder.found]);
}
