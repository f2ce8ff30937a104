#include "jemalloc/code.h"
#include "base/list.h"
#include "base/search.h"
#include "elf/function_names.h"
#include "jemalloc/stripped/stripped.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SOURCE_NAME_MAX = 256 };

/* A function that belongs to jemalloc, or may do so by its source file. */
struct owned_function {
    remote_addr start, end;
    size_t before; /* functions of the program before it in .symtab: the order of aliases */
    bool named;    /* by its name, not only by its source file */
    bool divided;  /* a function of the program is between this one and the former */
};

/* For the program's own functions, perhaps a million, only addresses are kept. */
struct functions {
    struct owned_function *list;
    remote_addr *others; /* the program's own */
    size_t count, capacity, other_count, other_capacity, named;
    bool failed;
    char file[SOURCE_NAME_MAX]; /* source file of the last local symbol: the next one mostly has the
                                   same */
    bool is_source;             /* it is one of jemalloc */
};

/* src/ of 4.0 to 5.3.1 and of the development branch of May 2026, up to the first dot: ".c"
 * follows, or ".pic.o" after LTO. */
static const char *const source_files[] = {
    "arena",
    "arenas_management",
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
    "hpa_central",
    "hpa_hooks",
    "hpdata",
    "huge",
    "inspect",
    "jemalloc",
    "jemalloc_cpp",
    "jemalloc_fork",
    "jemalloc_init",
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

/* The public functions, without the prefix (jemalloc(3)). */
static const char *const public_functions[] = {
    "aligned_alloc",
    "calloc",
    "dallocx",
    "free",
    "free_aligned_sized",
    "free_sized",
    "mallctl",
    "mallctlbymib",
    "mallctlnametomib",
    "malloc",
    "malloc_message",
    "malloc_stats_print",
    "malloc_usable_size",
    "mallocx",
    "memalign",
    "nallocx",
    "posix_memalign",
    "pvalloc",
    "rallocx",
    "realloc",
    "sallocx",
    "sdallocx",
    "smallocx",
    "valloc",
    "xallocx",
};

static bool is_of_source_file(struct functions *functions, const char *file)
{
    size_t n;

    if (!file)
        return false;
    if (strcmp(file, functions->file) != 0) {
        snprintf(functions->file, sizeof functions->file, "%s", file);
        functions->is_source = false;
        n = strcspn(file, ".");
        for (size_t i = 0; n && i < ARRAY_LEN(source_files) && !functions->is_source; i++)
            functions->is_source = strncmp(file, source_files[i], n) == 0 && !source_files[i][n];
    }
    return functions->is_source;
}

/* gcc's names for static functions of which another part of an LTO link makes use: global, and
 * without a source file. */
static const struct name_pattern promoted[] = {
    NAME_ENDS_WITH(".lto_priv.0"), NAME_ENDS_WITH(".lto_priv.1"), NAME_ENDS_WITH(".lto_priv.2"),
    NAME_ENDS_WITH(".lto_priv.3")};

enum { PATTERNS_MAX = 4 + ARRAY_LEN(promoted) + ARRAY_LEN(public_functions) };

/*
 * Internal names start with "je_", after the prefix if that is a different one
 * (private_namespace); the C++ operators new and delete start with _Zn and _Zd.
 */
static size_t name_patterns(const char *prefix, struct name_pattern patterns[PATTERNS_MAX])
{
    const struct name_pattern common[] = {NAME_BEGINS_WITH("je_"), NAME_BEGINS_WITH("_Zn"),
                                          NAME_BEGINS_WITH("_Zd")};
    size_t count = ARRAY_LEN(common) + ARRAY_LEN(promoted);

    memcpy(patterns, common, sizeof common);
    memcpy(patterns + ARRAY_LEN(common), promoted, sizeof promoted);
    if (prefix[0]) {
        patterns[count++] = (struct name_pattern){NAME_BEGINS, prefix, strlen(prefix)};
        return count;
    }
    for (size_t i = 0; i < ARRAY_LEN(public_functions); i++)
        patterns[count++] =
            (struct name_pattern){NAME_WHOLE, public_functions[i], strlen(public_functions[i])};
    return count;
}

/*
 * name: NULL if it matches no pattern. Leaves out what may be of either: a static function whose
 * source file says nothing, or is not known; and what LTO has promoted.
 */
static bool visit_function(void *ctx, const char *name, const struct symbol *symbol)
{
    struct functions *functions = ctx;

    if (!name && !symbol->local) {
        if (!LIST_GROW(functions->others, functions->other_capacity, functions->other_count)) {
            functions->failed = true;
            return false;
        }
        functions->others[functions->other_count++] = symbol->address;
        return true;
    }
    if (name ? strstr(name, ".lto_priv.") != NULL : !is_of_source_file(functions, symbol->file))
        return true;
    if (!LIST_GROW(functions->list, functions->capacity, functions->count)) {
        functions->failed = true;
        return false;
    }
    functions->named += name != NULL;
    functions->list[functions->count++] = (struct owned_function){
        .start = symbol->address,
        .end = symbol->address + (symbol->size ? symbol->size : 1),
        .before = functions->other_count,
        .named = name != NULL,
    };
    return true;
}

static int compare_functions(const void *a, const void *b)
{
    const struct owned_function *x = a, *y = b;
    if (x->start != y->start)
        return x->start > y->start ? 1 : -1;
    return (x->before > y->before) - (x->before < y->before);
}

/*
 * Forbids the functions between two of the program. An archive is linked as one
 * piece, so they all belong to jemalloc if one of them does by its name; so do
 * unknown functions between them, but not those at either end.
 */
static fault_code forbid_runs(struct functions *functions, struct plan *plan, struct fault *fault)
{
    struct owned_function *list = functions->list;
    const size_t count = functions->count;
    fault_code rc = FAULT_NONE;

    qsort(list, count, sizeof *list, compare_functions);
    for (size_t i = 0; i < functions->other_count; i++) {
        const remote_addr other = functions->others[i];
        size_t next = SEARCH_FIRST(
            k, count, list[k].start > other || (list[k].start == other && list[k].before > i));
        if (next < count)
            list[next].divided = true;
    }
    for (size_t first = 0, end; first < count && rc == FAULT_NONE; first = end) {
        bool named = list[first].named;
        for (end = first + 1; end < count && !list[end].divided; end++)
            named |= list[end].named;
        if (named)
            rc = plan_forbid(plan, list[first].start, list[end - 1].end, "jemalloc", fault);
    }
    return rc;
}

fault_code code_forbid(const struct instance *instance, struct plan *plan,
                       const struct target *target, struct memory *memory, struct fault *fault)
{
    struct name_pattern patterns[PATTERNS_MAX];
    struct name_query query = {.patterns = patterns, .others = true};
    const struct module *module = &instance->module;
    struct functions functions = {.failed = false};
    enum symbol_place place;
    struct function_names symbols;
    fault_code rc;

    plan_avoid_thread(plan, "jemalloc_bg_thd"); /* 5.0: background_thread.c */
    if (!instance->in_program)
        return plan_forbid(plan, module->start, module->end, "jemalloc", fault);

    query.count = name_patterns(instance->prefix, patterns);
    if (function_names_open(&symbols, module, target, memory))
        function_names_visit_file(&symbols, &query, visit_function, &functions, &place);
    function_names_close(&symbols);
    if (functions.failed)
        rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "plan", "%s", module->path);
    else if (functions.named < 100) /* every jemalloc since 4.0 has several hundred */
        rc = stripped_forbid(instance, plan, target, memory, fault);
    else
        rc = forbid_runs(&functions, plan, fault);
    free(functions.list);
    free(functions.others);
    return rc;
}
