#include "inject/plan.h"
#include "elf/function_names.h"
#include "elf/image.h"
#include "inject/faults.h"
#include "inject/nameless.h"
#include "inject/resume.h"
#include "inject/stoppers.h"

#include <errno.h>
#include <string.h>

enum {
    SEARCH_CHUNK = 256 << 10,
    SEARCH_OVERLAP = 16,
    SEARCH_NEAR = 64 << 10,
    VERSIONS_MAX = 16, /* definitions of one name in one module that are examined */
};

typedef size_t (*finder)(const unsigned char *code, size_t len);

/* Searches [start, end) of the target's memory. Returns the address; 0: not found. */
static remote_addr search_code(struct memory *memory, remote_addr start, remote_addr end,
                               finder find)
{
    AUTO_FREE unsigned char *code = malloc(SEARCH_CHUNK);

    while (code && start < end) {
        size_t len = end - start < SEARCH_CHUNK ? (size_t)(end - start) : SEARCH_CHUNK;
        if (!memory_read(memory, start, code, len))
            return 0;
        size_t at = find(code, len);
        if (at != SIZE_MAX)
            return start + at;
        if (len < SEARCH_CHUNK)
            break;
        start += len - SEARCH_OVERLAP;
    }
    return 0;
}

/* Searches the module's code around an address in it. */
static remote_addr search_around(struct memory *memory, const struct module *module, remote_addr at,
                                 finder find)
{
    const remote_addr start = module->exec_start, end = module->exec_end;
    remote_addr low = at - start > SEARCH_NEAR ? at - SEARCH_NEAR : start,
                high = end - at > SEARCH_NEAR ? at + SEARCH_NEAR : end;

    return search_code(memory, low, high, find);
}

/* Searches first near a symbol that is known to be close, then in all of the module's code. */
static remote_addr search_near(struct memory *memory, const struct module *module,
                               const struct image *image, const char *symbol_name, finder find)
{
    struct symbol symbol;
    remote_addr found = 0;

    if (image_symbol(image, symbol_name, &symbol) && module_has_code(module, symbol.address))
        found = search_around(memory, module, symbol.address, find);
    return found ? found : search_code(memory, module->exec_start, module->exec_end, find);
}

static bool is_loader(const struct module *module)
{
    const char *name = module_name(module);
    return strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld.so", 5) == 0 ||
           strncmp(name, "ld-2.", 5) == 0;
}

static fault_code forbid_function(struct plan *plan, const struct symbol *symbol, const char *what,
                                  struct fault *fault)
{
    return plan_forbid(plan, symbol->address, symbol->address + symbol->size, what, fault);
}

/*
 * The functions of the C library that are of interest. Most are forbidden: those
 * in which a thread holds, or is about to hold, every lock of the
 * allocator, or in which it shares its memory with a child that has not yet
 * called exec; and those in which a thread ends, for a static program without
 * call frame information (local symbols: not exported by libraries). And those of
 * the C library's own allocator, beside which a program may have another: the first
 * call of a thread into that one may allocate here (pthread_setspecific).
 */
static const struct name_pattern libc_names[] = {
    /* not forbidden by name */
    NAME_BEGINS_WITH("_Unwind_"),
    NAME_IS("__errno_location"),
    NAME_IS("pthread_setcancelstate"),
    NAME_IS("pthread_setcanceltype"),
    /* forbidden */
    NAME_IS("fork"),
    NAME_IS("vfork"),
    NAME_IS("_Fork"),
    NAME_IS("__libc_fork"),
    NAME_IS("posix_spawn"),
    NAME_IS("posix_spawnp"),
    NAME_IS("pthread_create"),
    NAME_IS("pthread_exit"),
    NAME_IS("__pthread_exit"),
    NAME_IS("dlopen"),
    NAME_IS("dlclose"),
    NAME_IS("dlmopen"),
    NAME_IS("__libc_dlopen_mode"),
    NAME_IS("__nptl_deallocate_tsd"),
    NAME_IS("__call_tls_dtors"),
    NAME_IS("__pthread_tsd_run_dtors"),
    NAME_IS("malloc"),
    NAME_IS("calloc"),
    NAME_IS("realloc"),
    NAME_IS("free"),
    NAME_IS("memalign"),
    NAME_IS("posix_memalign"),
    NAME_IS("aligned_alloc"),
    NAME_IS("valloc"),
    NAME_IS("pvalloc"),
    NAME_IS("malloc_trim"),
};
enum { FORBIDDEN_FIRST = 4 };

/* The definitions of one of these names in a module. */
struct definitions {
    struct plan *plan;
    const struct module *module;
    const char *what; /* static text */
    unsigned count;
    fault_code rc;
    struct fault *fault;
};

static bool visit_definition(void *ctx, const char *name, const struct symbol *symbol)
{
    struct definitions *definitions = ctx;

    (void)name;
    if (module_has_code(definitions->module, symbol->address))
        definitions->rc =
            forbid_function(definitions->plan, symbol, definitions->what, definitions->fault);
    return definitions->rc == FAULT_NONE && ++definitions->count < VERSIONS_MAX;
}

/*
 * What an allocator calls of the C library and a preloaded library wraps, with a lock of its own
 * perhaps: the stopped thread may have taken it, and have left the library since.
 */
static const char *const interposable[] = {"open",
                                           "open64",
                                           "openat",
                                           "creat",
                                           "creat64",
                                           "close",
                                           "read",
                                           "write",
                                           "readlink",
                                           "syscall",
                                           "mmap",
                                           "mmap64",
                                           "munmap",
                                           "madvise",
                                           "mprotect",
                                           "sbrk",
                                           "clock_gettime",
                                           "gettimeofday",
                                           "pthread_mutex_lock",
                                           "pthread_mutex_trylock",
                                           "pthread_mutex_unlock"};

/*
 * Forbids these functions wherever they are defined: before glibc 2.34
 * libpthread has pthread_create and a stub of fork, libdl has dlopen, and a
 * library that wraps one of them defines it beside the C library.
 */
static fault_code forbid_names(struct plan *plan, const struct module *module,
                               const struct image *image, struct fault *fault)
{
    struct definitions definitions = {.plan = plan, .module = module, .fault = fault};

    for (size_t i = FORBIDDEN_FIRST; i < ARRAY_LEN(libc_names) && definitions.rc == FAULT_NONE;
         i++) {
        definitions.what = libc_names[i].text;
        definitions.count = 0;
        image_symbols_named(image, definitions.what, visit_definition, &definitions);
    }
    return definitions.rc;
}

static bool defines_function(const struct image *image, const struct module *module,
                             const char *name, struct symbol *function)
{
    return image_symbol(image, name, function) && module_has_code(module, function->address);
}

/* The end of the last function before malloc that a C library exports. */
struct before_malloc {
    remote_addr malloc, end;
};

static bool visit_before(void *ctx, const char *name, const struct symbol *symbol)
{
    struct before_malloc *before = ctx;
    remote_addr end = symbol->address + symbol->size;

    /* It is one of malloc.o, which glibc exports to old programs. */
    if (end <= before->malloc && end > before->end && strcmp(name, "__default_morecore") != 0)
        before->end = end;
    return true;
}

/*
 * Forbids the static functions of malloc.o, which are before malloc: since glibc 2.42
 * free jumps to some of them, so that no return address leads back into it.
 */
static fault_code forbid_before_malloc(struct plan *plan, const struct module *libc,
                                       const struct image *image, struct fault *fault)
{
    struct before_malloc before = {.end = libc->exec_start};
    struct symbol function;

    if (!defines_function(image, libc, "malloc", &function))
        return FAULT_NONE;
    before.malloc = function.address;
    image_symbols_ending(image, "", visit_before, &before);
    return plan_forbid(plan, before.end, before.malloc, "malloc", fault);
}

/* The functions of the C library in a statically linked program: all in one .symtab. */
struct static_names {
    struct plan *plan;
    bool failed;
};

static const struct name_query static_query = {.patterns = libc_names,
                                               .count = ARRAY_LEN(libc_names)};

static bool visit_static(void *ctx, const char *name, const struct symbol *symbol)
{
    struct static_names *names = ctx;

    if (strcmp(name, "__errno_location") == 0)
        names->plan->errno_location = symbol->address;
    if (strcmp(name, "pthread_setcancelstate") == 0)
        names->plan->setcancelstate = symbol->address;
    if (strcmp(name, "pthread_setcanceltype") == 0)
        names->plan->setcanceltype = symbol->address;
    if (strncmp(name, "_Unwind_", 8) == 0)
        names->failed |= forbid_function(names->plan, symbol, "the unwinder", NULL) != FAULT_NONE;
    for (size_t i = FORBIDDEN_FIRST; i < ARRAY_LEN(libc_names); i++)
        if (strcmp(name, libc_names[i].text) == 0)
            names->failed |=
                forbid_function(names->plan, symbol, libc_names[i].text, NULL) != FAULT_NONE;
    return !names->failed;
}

/*
 * ld gives a non-PIE static program no .eh_frame_hdr, whose table the unwinder
 * searches: builds the table from the records themselves.
 */
static void learn_frames(struct plan *plan, const struct module *module, const struct image *image,
                         const struct target *target, struct memory *memory)
{
    struct view view;

    for (size_t i = 0; i < image->phdr_count; i++)
        if (image->phdrs[i].p_type == PT_GNU_EH_FRAME)
            return;
    if (plan->frames.count || !view_open(&view, module, target, memory))
        return;
    eh_frames_load(&plan->frames, &view);
    view_close(&view);
}

static fault_code learn_static(struct plan *plan, const struct module *module,
                               const struct image *image, const struct target *target,
                               struct memory *memory, struct fault *fault)
{
    struct static_names names = {plan, false};
    enum symbol_place place;
    struct function_names symbols;

    if (function_names_open(&symbols, module, target, memory))
        function_names_visit_file(&symbols, &static_query, visit_static, &names, &place);
    function_names_close(&symbols);
    if (names.failed)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "plan", "%s", module->path);
    learn_frames(plan, module, image, target, memory);
    if (!plan->errno_location) /* stripped */
        return nameless_learn(plan, module, target, memory, fault);
    return FAULT_NONE;
}

static void find_gadgets(struct plan *plan, const struct module *module, const struct image *image,
                         struct memory *memory)
{
    const remote_addr start = module->exec_start, end = module->exec_end;
    unsigned char code[8];

    if (!plan->gadgets.syscall_return)
        plan->gadgets.syscall_return =
            search_near(memory, module, image, "syscall", arch_find_syscall_return);
    if (!plan->gadgets.sigreturn)
        plan->gadgets.sigreturn =
            search_near(memory, module, image, "sigaction", arch_find_sigreturn);
    if (plan->gadgets.store)
        return;
    remote_addr at = search_code(memory, start, end, arch_find_store_pops);
    if (!at)
        at = search_code(memory, start, end, arch_find_store);
    if (at && memory_read(memory, at, code, sizeof code))
        arch_decode_store(&plan->gadgets, at, code);
}

static bool opens_code(const struct module *module, struct memory *memory, struct image *image)
{
    return module->exec_start != module->exec_end && module->inode != 0 &&
           image_open(image, memory, module->start);
}

/* Returns the first module whose code defines both functions; NULL: none exports them. */
static const struct module *find_both(const struct modules *modules, struct memory *memory,
                                      const char *const names[2], struct image *image)
{
    for (size_t i = 0; i < modules->count; i++) {
        const struct module *module = &modules->list[i];
        struct symbol function;
        if (opens_code(module, memory, image) &&
            defines_function(image, module, names[0], &function) &&
            defines_function(image, module, names[1], &function))
            return module;
    }
    return NULL;
}

static fault_code learn_module(struct plan *plan, const struct module *module,
                               const struct module *libc, struct memory *memory,
                               struct fault *fault)
{
    const char *name = module_name(module);
    /* Before glibc 2.34 libpthread and librt define some of the interposable ones as well. */
    bool is_libc = module == libc || is_loader(module) || strncmp(name, "librt", 5) == 0 ||
                   strncmp(name, "libpthread", 10) == 0;
    fault_code rc = FAULT_NONE;
    struct symbol function;
    struct image image;
    remote_addr at;

    if (opens_code(module, memory, &image)) {
        /* libpthread of glibc before 2.34 has its own sigaction(2), and so its own restorer. */
        if (plan->restorer_count < PLAN_RESTORERS_MAX &&
            defines_function(&image, module, "sigaction", &function)) {
            at = search_around(memory, module, function.address, arch_find_sigreturn);
            if (at && at != plan->gadgets.sigreturn)
                plan->restorers[plan->restorer_count++] = at;
        }
        for (size_t i = 0; i < ARRAY_LEN(interposable) && !is_libc && !plan->interposed.name; i++)
            if (defines_function(&image, module, interposable[i], &function))
                plan->interposed = (struct interposed){interposable[i], function.address};
        rc = forbid_names(plan, module, &image, fault);
    }
    if (rc != FAULT_NONE)
        return rc;
    if (is_loader(module) && module != libc)
        return plan_forbid(plan, module->start, module->end, "the dynamic loader", fault);
    if (strncmp(name, "libgcc_s", 8) == 0 || strncmp(name, "libunwind", 9) == 0)
        return plan_forbid(plan, module->start, module->end, "the unwinder", fault);
    return FAULT_NONE;
}

/*
 * Returns the address of that function in the C library, otherwise in any
 * module that has it; 0: none has.
 */
static remote_addr libc_function(const struct modules *modules, const struct module *libc,
                                 const struct image *image, const char *name)
{
    const char *const names[2] = {name, name};
    struct image other;
    struct symbol function;
    const struct module *module;

    if (defines_function(image, libc, name, &function))
        return function.address;
    module = find_both(modules, image->memory, names, &other);
    return module && defines_function(&other, module, name, &function) ? function.address : 0;
}

static fault_code plan_dynamic(struct plan *plan, const struct modules *modules,
                               struct memory *memory, bool *found, struct fault *fault)
{
    /*
     * __errno_location alone is no sign: before glibc 2.34 libpthread.so.0 also exports it and
     * may have a lower address. Nor is __libc_start_main, which preloaded libraries wrap. The C
     * library has both; one that starts programs by another name is recognized by the first.
     */
    static const char *const signs[][2] = {{"__libc_start_main", "__errno_location"},
                                           {"__errno_location", "__errno_location"}};
    const struct module *libc = NULL;
    fault_code rc = FAULT_NONE;
    struct image image;

    for (size_t i = 0; i < ARRAY_LEN(signs) && !libc; i++)
        libc = find_both(modules, memory, signs[i], &image);
    *found = libc != NULL;
    if (!libc) /* a static program without dynamic symbols */
        return FAULT_NONE;
    plan->errno_location = libc_function(modules, libc, &image, "__errno_location");
    plan->setcancelstate = libc_function(modules, libc, &image, "pthread_setcancelstate");
    plan->setcanceltype = libc_function(modules, libc, &image, "pthread_setcanceltype");
    find_gadgets(plan, libc, &image, memory);
    rc = forbid_before_malloc(plan, libc, &image, fault);
    for (size_t i = 0; i < modules->count && rc == FAULT_NONE; i++)
        rc = learn_module(plan, &modules->list[i], libc, memory, fault);
    return rc;
}

/*
 * A static program that has loaded libraries has two C libraries. It uses its
 * own for fork, signal handlers and errno.
 */
static fault_code plan_static_programs(struct plan *plan, const struct modules *modules,
                                       const struct target *target, struct memory *memory,
                                       struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    for (size_t i = 0; i < modules->count && rc == FAULT_NONE; i++) {
        const struct module *module = &modules->list[i];
        const struct arch_gadgets loaded = plan->gadgets;
        struct image image;
        if (!opens_code(module, memory, &image) || !image_is_static_program(&image))
            continue;
        plan->errno_location = plan->setcancelstate = plan->setcanceltype = 0;
        plan->gadgets = (struct arch_gadgets){0};
        find_gadgets(plan, module, &image, memory);
        if (!plan->gadgets.syscall_return || !plan->gadgets.sigreturn)
            plan->gadgets = loaded;
        else if (plan->restorer_count < PLAN_RESTORERS_MAX)
            plan->restorers[plan->restorer_count++] = loaded.sigreturn;
        rc = learn_static(plan, module, &image, target, memory, fault);
    }
    return rc;
}

static fault_code plan_static(struct plan *plan, const struct modules *modules,
                              const struct target *target, struct memory *memory,
                              struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    for (size_t i = 0; i < modules->count; i++)
        if (is_loader(&modules->list[i])) /* but no C library */
            return fault_set(fault, FAULT_NO_SAFE_POINT, 0, "plan",
                             "it is still starting: its C library is not loaded yet");
    for (size_t i = 0; i < modules->count && rc == FAULT_NONE; i++) {
        const struct module *module = &modules->list[i];
        struct image image;
        if (!opens_code(module, memory, &image))
            continue;
        find_gadgets(plan, module, &image, memory);
        rc = learn_static(plan, module, &image, target, memory, fault);
    }
    return rc;
}

fault_code plan_make(struct plan *plan, const struct modules *modules, const struct target *target,
                     struct memory *memory, struct fault *fault)
{
    bool dynamic;
    fault_code rc;

    memset(plan, 0, sizeof *plan);
    rc = plan_dynamic(plan, modules, memory, &dynamic, fault);
    if (rc == FAULT_NONE && dynamic)
        rc = plan_static_programs(plan, modules, target, memory, fault);
    if (rc == FAULT_NONE && !dynamic)
        rc = plan_static(plan, modules, target, memory, fault);
    if (rc == FAULT_NONE && (!plan->gadgets.syscall_return || !plan->gadgets.sigreturn))
        rc = fault_set(fault, FAULT_UNSUPPORTED, 0, "plan",
                       "no %s instruction sequence found in its C library",
                       plan->gadgets.sigreturn ? "system call" : "sigreturn");
    if (rc == FAULT_NONE)
        rc = collectors_refuse(modules, target, memory, fault);
    /* musl is loader and C library in one: Alpine names it as the former, Debian as the latter. */
    for (size_t i = 0; i < modules->count; i++) {
        const char *name = module_name(&modules->list[i]);
        plan->musl |= strncmp(name, "ld-musl-", 8) == 0 || strcmp(name, "libc.so") == 0;
    }
    if (rc == FAULT_NONE)
        rseq_plan_make(&plan->rseq, modules, target, memory);
    else
        plan_free(plan);
    return rc;
}

fault_code plan_forbid(struct plan *plan, remote_addr start, remote_addr end, const char *what,
                       struct fault *fault)
{
    if (!ranges_add(&plan->forbidden, start, end, what))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "plan", "%s", what);
    return FAULT_NONE;
}

void plan_avoid_thread(struct plan *plan, const char *comm)
{
    if (plan->avoid_count < PLAN_AVOID_MAX)
        plan->avoid[plan->avoid_count++] = comm;
}

void plan_seal(struct plan *plan)
{
    ranges_sort(&plan->forbidden);
}

bool plan_in_restorer(const struct plan *plan, remote_addr addr, size_t len)
{
    for (size_t i = 0; i < plan->restorer_count; i++)
        if (addr - plan->restorers[i] < len)
            return true;
    return addr - plan->gadgets.sigreturn < len;
}

void plan_free(struct plan *plan)
{
    ranges_free(&plan->forbidden);
    eh_frames_free(&plan->frames);
    memset(plan, 0, sizeof *plan);
}
