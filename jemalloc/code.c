#include "jemalloc/code.h"
#include "elf/symbols.h"

#include <errno.h>
#include <string.h>

/* Whose is a function of a program that jemalloc is linked into? */
enum owner {
    OWNER_PROGRAM,
    OWNER_UNKNOWN,  /* a static function of a source file that tells nothing */
    OWNER_LIKELY,   /* a static function of a source file that has the name of one of jemalloc's */
    OWNER_JEMALLOC, /* by its own name */
};

struct function {
    remote_addr start, end;
    enum owner owner;
};

struct functions {
    const char *prefix;
    struct function *list;
    size_t count, room, named;
    bool failed;
};

/* src/ of 4.0 to 5.3.1, without what follows the first dot: ".c", or ".pic.o" after LTO. */
static const char *const source_files[] = {
    "arena",
    "atomic",
    "background_thread",
    "base",
    "batcher",
    "bin",
    "bin_info",
    "bitmap",
    "buf_writer",
    "cache_bin",
    "chunk",
    "chunk_dss",
    "chunk_mmap",
    "ckh",
    "conf",
    "counter",
    "ctl",
    "decay",
    "div",
    "ecache",
    "edata",
    "edata_cache",
    "ehooks",
    "emap",
    "eset",
    "exp_grow",
    "extent",
    "extent_dss",
    "extent_mmap",
    "fxp",
    "hash",
    "hook",
    "hpa",
    "hpa_hooks",
    "hpdata",
    "huge",
    "inspect",
    "jemalloc",
    "jemalloc_cpp",
    "large",
    "log",
    "malloc_io",
    "mb",
    "mutex",
    "mutex_pool",
    "nstime",
    "pa",
    "pa_extra",
    "pac",
    "pages",
    "pai",
    "peak_event",
    "prng",
    "prof",
    "prof_data",
    "prof_log",
    "prof_recent",
    "prof_stack_range",
    "prof_stats",
    "prof_sys",
    "psset",
    "quarantine",
    "rtree",
    "safety_check",
    "san",
    "san_bump",
    "sc",
    "sec",
    "spin",
    "stats",
    "sz",
    "tcache",
    "test_hooks",
    "thread_event",
    "thread_event_registry",
    "ticker",
    "tsd",
    "util",
    "witness",
};

/* The public functions, behind the prefix (jemalloc(3) and the C++ operators). */
static const char *const public_functions[] = {
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "mallocx",
    "rallocx",
    "xallocx",
    "sallocx",
    "dallocx",
    "sdallocx",
    "nallocx",
    "mallctl",
    "mallctlnametomib",
    "mallctlbymib",
    "malloc_stats_print",
    "malloc_usable_size",
    "malloc_message",
    "smallocx",
    "free_sized",
    "free_aligned_sized",
};

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_source_file(const char *file)
{
    size_t n = file ? strcspn(file, ".") : 0;

    for (size_t i = 0; n && i < ARRAY_LEN(source_files); i++)
        if (strncmp(file, source_files[i], n) == 0 && !source_files[i][n])
            return true;
    return false;
}

/* Internal names begin with "je_", behind the prefix if that is another (private_namespace). */
static enum owner owner_of(const char *prefix, const char *name, const struct symbol *symbol)
{
    size_t n = strlen(prefix);

    if (strncmp(name, "je_", 3) == 0 || (n && strncmp(name, prefix, n) == 0) ||
        strncmp(name, "_Zn", 3) == 0 || strncmp(name, "_Zd", 3) == 0)
        return OWNER_JEMALLOC;
    if (!n && is_among(name, public_functions, ARRAY_LEN(public_functions)))
        return OWNER_JEMALLOC;
    if (!symbol->local)
        return OWNER_PROGRAM;
    return is_source_file(symbol->file) ? OWNER_LIKELY : OWNER_UNKNOWN;
}

static bool functions_grow(struct functions *functions)
{
    size_t room = functions->room ? functions->room * 2 : 4096;
    struct function *list;

    if (functions->count < functions->room)
        return true;
    list = reallocarray(functions->list, room, sizeof *list);
    if (!list)
        return false;
    functions->list = list;
    functions->room = room;
    return true;
}

static bool visit_function(void *ctx, const char *name, const struct symbol *symbol)
{
    struct functions *functions = ctx;
    struct function function = {
        .start = symbol->address,
        .end = symbol->address + (symbol->size ? symbol->size : 1),
        .owner = owner_of(functions->prefix, name, symbol),
    };

    functions->failed = !functions_grow(functions);
    if (functions->failed)
        return false;
    functions->named += function.owner == OWNER_JEMALLOC;
    functions->list[functions->count++] = function;
    return true;
}

static int compare_functions(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/*
 * The functions from first up to the program's next one: an archive is linked
 * in one piece, so they are jemalloc's if any of them is by its name, except
 * unknown ones at either edge.
 */
static enum fault_code forbid_run(const struct functions *functions, size_t first, size_t end,
                                  struct plan *plan, struct fault *fault)
{
    const struct function *list = functions->list;
    bool named = false;

    while (first < end && list[first].owner == OWNER_UNKNOWN)
        first++;
    while (end > first && list[end - 1].owner == OWNER_UNKNOWN)
        end--;
    for (size_t i = first; i < end; i++)
        named |= list[i].owner == OWNER_JEMALLOC;
    if (!named)
        return FAULT_NONE;
    return plan_forbid(plan, list[first].start, list[end - 1].end, "jemalloc", fault);
}

static enum fault_code forbid_runs(struct functions *functions, struct plan *plan,
                                   struct fault *fault)
{
    enum fault_code rc = FAULT_NONE;

    qsort(functions->list, functions->count, sizeof *functions->list, compare_functions);
    for (size_t first = 0, end; first < functions->count && rc == FAULT_NONE; first = end + 1) {
        for (end = first; end < functions->count; end++)
            if (functions->list[end].owner == OWNER_PROGRAM)
                break;
        rc = forbid_run(functions, first, end, plan, fault);
    }
    return rc;
}

static enum fault_code forbid_functions(const struct instance *instance, struct plan *plan,
                                        const struct target *target, struct memory *memory,
                                        struct fault *fault)
{
    struct functions functions = {.prefix = instance->prefix};
    enum symbol_place place;
    struct symbols symbols;
    enum fault_code rc;

    if (symbols_open(&symbols, &instance->module, target, memory))
        symbols_visit_file(&symbols, "", visit_function, &functions, &place);
    symbols_close(&symbols);
    if (functions.failed)
        rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "plan", "%s", instance->module.path);
    else if (functions.named < 100) /* every jemalloc since 4.0 has several hundred */
        rc = fault_set(fault, FAULT_UNSUPPORTED, 0, "plan",
                       "jemalloc is linked into %s, whose symbols are stripped: its code cannot "
                       "be told from the program's",
                       instance->module.path);
    else
        rc = forbid_runs(&functions, plan, fault);
    free(functions.list);
    return rc;
}

enum fault_code code_forbid(const struct instance *instance, struct plan *plan,
                            const struct target *target, struct memory *memory, struct fault *fault)
{
    const struct module *module = &instance->module;

    plan_avoid_thread(plan, "jemalloc_bg_thd"); /* 5.0: background_thread.c */
    if (instance->in_program)
        return forbid_functions(instance, plan, target, memory, fault);
    return plan_forbid(plan, module->start, module->end, "jemalloc", fault);
}
