#include "inject/collectors.h"
#include "elf/function_names.h"
#include "elf/view.h"
#include "host/task.h"
#include "inject/faults.h"
#include "inject/plan.h"
#include "inject/refs.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
    FUNCTION_MAX = 512,      /* bytes of a function that are decoded */
    LIBGC_SUSPEND = SIGPWR,  /* libgc: gcconfig.h, SIG_SUSPEND */
    LIBGC_RESTART = SIGXCPU, /* and SIG_THR_RESTART */
    PATTERN_MAX = 64,
};

#define BIT(signal) (1ull << ((signal)-1))

enum kind { KIND_LIBGC, KIND_D, KIND_MONO, KIND_SBCL, KINDS };

/*
 * Names by which such a library is recognized. Mono suspends threads that run
 * native code by signals, and waits for those that run managed code to reach a
 * safe point of its own, which our call never does. SBCL's handler defers the
 * stop while the thread is in a pseudo-atomic section, that is, until a call in
 * it has ended.
 */
static const struct {
    const char *name, *sign;
} kinds[KINDS] = {
    [KIND_LIBGC] = {"libgc", "GC_pthread_create"},
    [KIND_D] = {"D's runtime", "thread_suspendHandler"},
    [KIND_MONO] = {"Mono", "mono_jit_init"},
    [KIND_SBCL] = {"SBCL", "sig_stop_for_gc_handler"},
};

static const char *const refusals[KINDS] = {
    [KIND_LIBGC] = "it uses the garbage collector libgc, whose lock, signals or threads could not "
                   "be found (stripped, or older than 7.6); a call could hang it for good",
    [KIND_D] = "it uses D's garbage collector, whose signals or functions could not be found "
               "(stripped, or too old); a call could hang it for good",
    [KIND_MONO] = "it runs Mono, which stops threads for its garbage collector at any moment; a "
                  "call could hang it for good",
    [KIND_SBCL] = "it runs SBCL, which stops threads for its garbage collector at any moment; a "
                  "call could hang it for good",
};

/* The file names of such libraries, which count whatever signals the process catches. */
static const char *const libraries[] = {
    "libgc.so",   "libgdruntime", "libgphobos", "libdruntime",
    "libphobos2", "libmono",      "mono",       "sbcl",
};

static const struct name_pattern name_patterns[] = {
    NAME_IS("GC_pthread_create"),
    NAME_IS("GC_get_suspend_signal"),
    NAME_IS("GC_get_thr_restart_signal"),
    NAME_IS("GC_call_with_alloc_lock"),
    NAME_IS("GC_set_on_collection_event"),
    NAME_IS("thread_suspendHandler"),
    NAME_IS("thread_setGCSignals"),
    NAME_IS("thread_suspendAll"),
    NAME_IS("thread_resumeAll"),
    NAME_BEGINS_WITH("_D4core8internal2gc4impl12conservativeQw3Gcx11fullcollect"),
    NAME_BEGINS_WITH("_D2gc4impl12conservativeQw3Gcx11fullcollect"),
    NAME_IS("mono_jit_init"),
    NAME_IS("sig_stop_for_gc_handler"),
};

static const struct name_query name_query = {.patterns = name_patterns,
                                             .count = ARRAY_LEN(name_patterns)};

struct finder {
    struct plan *plan;
    const struct modules *modules;
    const struct target *target;
    struct memory *memory;
    const struct module *module; /* the module that is examined */
    bool seen[KINDS];
    bool suspend_all, resume_all, collect; /* D: forbidden functions */
    bool known_markers; /* libgc: known by the signals that they block; since 7.6 */
    bool failed;
};

/* ---- references of a function ---- */

struct variables {
    const struct finder *finder;
    unsigned kinds;
    remote_addr list[COLLECTOR_VARIABLES];
    size_t count;
    bool too_many;
};

static bool is_writable(const struct finder *finder, remote_addr addr)
{
    const struct vma *vma = modules_vma_at(finder->modules, addr);

    return vma && (vma->prot & MAP_WRITE);
}

/* A variable that another module may override is accessed through a table of addresses. */
static remote_addr through_table(const struct finder *finder, remote_addr addr)
{
    remote_addr behind;

    if (memory_read(finder->memory, addr, &behind, sizeof behind) &&
        behind % sizeof(int32_t) == 0 && is_writable(finder, behind))
        return behind;
    return addr;
}

/* Returns the end of the module's variables, including those that its file does not contain. */
static remote_addr memory_end(const struct image *image)
{
    remote_addr end = 0;

    for (size_t i = 0; i < image->phdr_count; i++) {
        remote_addr last = image->phdrs[i].p_vaddr + image->phdrs[i].p_memsz + image->bias;
        if (image->phdrs[i].p_type == PT_LOAD && last > end)
            end = last;
    }
    return end;
}

static void collect_variable(void *ctx, const struct ref *ref)
{
    struct variables *variables = ctx;
    remote_addr addr = through_table(variables->finder, ref->target);

    if (!is_writable(variables->finder, addr))
        return;
    for (size_t i = 0; i < variables->count; i++)
        if (variables->list[i] == addr)
            return;
    variables->too_many |= variables->count == ARRAY_LEN(variables->list);
    if (!variables->too_many)
        variables->list[variables->count++] = addr;
}

/*
 * Finds the variables that a function's code refers to. False: none, or too
 * many for the function that is looked for.
 */
static bool find_variables(struct variables *variables, const struct symbol *function)
{
    struct memory *memory = variables->finder->memory;
    unsigned char code[REF_OVERLAP + FUNCTION_MAX + REF_OVERLAP] = {0};
    struct image image;

    if (function->size == 0 || function->size > FUNCTION_MAX ||
        !image_open(&image, memory, variables->finder->module->start) ||
        !memory_read(memory, function->address, code + REF_OVERLAP, function->size))
        return false;
    const struct ref_query query = {.kinds = variables->kinds,
                                    .absolute = image.header.e_type == ET_EXEC,
                                    .low = image.base,
                                    .high = memory_end(&image),
                                    .visit = collect_variable,
                                    .ctx = variables};
    refs_visit(code, sizeof code, REF_OVERLAP + function->size, function->address - REF_OVERLAP,
               &query);
    return variables->count > 0 && !variables->too_many;
}

static void learn_signals(struct finder *finder, const struct symbol *function)
{
    struct collector *collector = &finder->plan->collector;
    struct variables found = {.finder = finder, .kinds = REF_DATA | REF_ADDRESS};

    if (!find_variables(&found, function))
        return;
    for (size_t i = 0; i < found.count && collector->variable_count < COLLECTOR_VARIABLES; i++)
        collector->variables[collector->variable_count++] = found.list[i];
}

static void learn_lock(struct finder *finder, const struct symbol *function)
{
    struct variables found = {.finder = finder, .kinds = REF_ADDRESS};

    if (find_variables(&found, function) && found.count == 1)
        finder->plan->collector.lock = found.list[0];
}

static void forbid_collector_function(struct finder *finder, const struct symbol *function,
                                      bool *done)
{
    finder->failed |=
        plan_forbid(finder->plan, function->address, function->address + function->size,
                    "the garbage collector", NULL) != FAULT_NONE;
    *done = true;
}

/* ---- names ---- */

static bool visit_name(void *ctx, const char *name, const struct symbol *symbol)
{
    struct finder *finder = ctx;

    for (size_t i = 0; i < KINDS; i++)
        finder->seen[i] |= strcmp(name, kinds[i].sign) == 0;
    if (strcmp(name, "GC_get_suspend_signal") == 0 ||
        strcmp(name, "GC_get_thr_restart_signal") == 0 || strcmp(name, "thread_setGCSignals") == 0)
        learn_signals(finder, symbol);
    else if (strcmp(name, "GC_call_with_alloc_lock") == 0)
        learn_lock(finder, symbol);
    else if (strcmp(name, "GC_set_on_collection_event") == 0) /* added in 7.6 */
        finder->known_markers = true;
    else if (strcmp(name, "thread_suspendAll") == 0)
        forbid_collector_function(finder, symbol, &finder->suspend_all);
    else if (strcmp(name, "thread_resumeAll") == 0)
        forbid_collector_function(finder, symbol, &finder->resume_all);
    else if (strncmp(name, "_D", 2) == 0)
        forbid_collector_function(finder, symbol, &finder->collect);
    return !finder->failed;
}

/* True if the module exports a sign of a collector. Four look-ups in its hash table. */
static bool exports_sign(const struct finder *finder)
{
    struct image image;
    struct symbol symbol;

    if (!image_open(&image, finder->memory, finder->module->start))
        return false;
    for (size_t i = 0; i < KINDS; i++)
        if (image_symbol(&image, kinds[i].sign, &symbol))
            return true;
    return false;
}

static bool has_library_name(const struct module *module)
{
    for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
        if (strncmp(module_name(module), libraries[i], strlen(libraries[i])) == 0)
            return true;
    return false;
}

/* Visits the names of one module: its dynamic symbols, or those of its file. */
static void visit_names(struct finder *finder, bool of_file)
{
    struct function_names names;
    enum symbol_place place;

    if (function_names_open(&names, finder->module, finder->target, finder->memory)) {
        if (of_file)
            function_names_visit_file(&names, &name_query, visit_name, finder, &place);
        else
            function_names_visit(&names, SYMBOLS_DYNSYM, &name_query, visit_name, finder);
    }
    function_names_close(&names);
}

static bool found_any(const struct finder *finder)
{
    for (size_t i = 0; i < KINDS; i++)
        if (finder->seen[i])
            return true;
    return false;
}

typedef void (*module_look)(struct finder *finder);

static void each_module(struct finder *finder, module_look look)
{
    for (size_t i = 0; i < finder->modules->count && !found_any(finder); i++) {
        finder->module = &finder->modules->list[i];
        if (finder->module->exec_start != finder->module->exec_end && finder->module->inode)
            look(finder);
    }
}

static void look_by_library(struct finder *finder)
{
    if (has_library_name(finder->module))
        visit_names(finder, false);
}

static void look_by_export(struct finder *finder)
{
    if (exports_sign(finder))
        visit_names(finder, false);
}

static void look_in_file(struct finder *finder)
{
    visit_names(finder, true);
}

/* ---- programs with a collector linked in, without names ---- */

static bool visit_text(void *ctx, const struct piece *piece)
{
    static const char text[] = "Cannot set SIG_SUSPEND handler"; /* libgc: pthread_stop_world.c */
    bool *found = ctx;

    *found = memmem(piece->bytes, piece->len, text, sizeof text - 1) != NULL;
    return !*found;
}

static void look_for_text(struct finder *finder)
{
    struct view view;

    if (!view_open(&view, finder->module, finder->target, finder->memory))
        return;
    view_scan_segments(&view, PF_R | PF_W, PF_R, PATTERN_MAX, visit_text,
                       &finder->seen[KIND_LIBGC]);
    view_close(&view);
}

/* Every D object has a section with this name (druntime: rt/sections_elf_shared.d). */
static bool is_d_program(const struct finder *finder)
{
    struct sections sections;
    Elf64_Shdr section;
    int fd = module_open(finder->module, finder->target, finder->memory);
    bool is;

    if (fd < 0)
        return false;
    is = sections_open(&sections, fd) && section_named(&sections, "minfo", &section);
    close(fd);
    return is;
}

static void look_at_program(struct finder *finder)
{
    finder->module = &finder->modules->list[0]; /* the lowest one: the program itself */
    if (!is_d_program(finder))
        return;
    visit_names(finder, true);
    finder->seen[KIND_D] = true;
}

/* ---- which collector ---- */

static size_t count_signals(uint64_t signals)
{
    return (size_t)__builtin_popcountll(signals);
}

/*
 * A library is recognized by its name. Other modules are examined only if the
 * process catches two signals that a collector may use, and the symbol tables
 * of their files are read only if the signals are those of a collector or the
 * program is written in D: ordinary targets must not wait for that.
 */
static void find_collector(struct finder *finder)
{
    const uint64_t caught = finder->target->status.sig_caught;
    const uint64_t libgc = BIT(LIBGC_SUSPEND) | BIT(LIBGC_RESTART);
    const uint64_t usual = libgc | BIT(SIGUSR1) | BIT(SIGUSR2) | ~(BIT(REALTIME_FIRST) - 1);

    each_module(finder, look_by_library);
    if (!found_any(finder) && count_signals(caught & usual) >= 2)
        each_module(finder, look_by_export);
    if (!found_any(finder) && (caught & libgc) == libgc)
        each_module(finder, look_in_file);
    if (!found_any(finder) && (caught & libgc) == libgc)
        each_module(finder, look_for_text);
    if (!found_any(finder) && count_signals(caught & usual) >= 2 && finder->modules->count)
        look_at_program(finder);
}

static bool is_servable(const struct finder *finder, enum kind kind)
{
    const struct collector *collector = &finder->plan->collector;

    switch (kind) {
    case KIND_LIBGC:
        return collector->lock && collector->variable_count == 2 && finder->known_markers;
    case KIND_D:
        return collector->variable_count == 2 && finder->suspend_all && finder->resume_all &&
               finder->collect;
    default:
        return false;
    }
}

static void choose_collector(const struct finder *finder)
{
    struct collector *collector = &finder->plan->collector;

    for (size_t i = 0; i < KINDS; i++) {
        if (!finder->seen[i])
            continue;
        if (collector->name || !is_servable(finder, (enum kind)i))
            collector->refusal = refusals[i]; /* two collectors: neither is certain */
        collector->name = kinds[i].name;
        if (i == KIND_LIBGC)
            collector->defaults = BIT(LIBGC_SUSPEND) | BIT(LIBGC_RESTART);
    }
}

/* musl is loader and C library in one: Alpine names it as the former, Debian as the latter. */
static bool has_musl(const struct modules *modules)
{
    for (size_t i = 0; i < modules->count; i++) {
        const char *name = module_name(&modules->list[i]);
        if (strncmp(name, "ld-musl-", 8) == 0 || strcmp(name, "libc.so") == 0)
            return true;
    }
    return false;
}

fault_code collectors_find(struct plan *plan, const struct modules *modules,
                           const struct target *target, struct memory *memory, struct fault *fault)
{
    struct finder finder = {.plan = plan, .modules = modules, .target = target, .memory = memory};

    plan->collector.musl = has_musl(modules);
    find_collector(&finder);
    choose_collector(&finder);
    if (finder.failed)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "plan", "the garbage collector");
    if (plan->collector.refusal)
        return fault_set(fault, FAULT_UNSUPPORTED, 0, "plan", "%s", plan->collector.refusal);
    return FAULT_NONE;
}

/* ---- at each call ---- */

bool collector_signals(const struct collector *collector, struct memory *memory, uint64_t *signals)
{
    *signals = collector->musl ? BIT(MUSL_SYNCCALL) : 0;
    for (size_t i = 0; i < collector->variable_count; i++) {
        int32_t number;
        if (!memory_read(memory, collector->variables[i], &number, sizeof number))
            return false;
        if (number > 0 && number <= 64)
            *signals |= BIT(number);
        else if (number == -1)
            *signals |= collector->defaults;
        else
            return false;
    }
    return true;
}

/* Returns the tid as the process itself sees it. */
static int own_number(const struct target *target, pid_t tid)
{
    struct proc_status status;

    return thread_status(target->proc, target->pid, tid, &status) == 0 ? status.ns_pid : 0;
}

/* True if the thread may hold the lock. */
static bool holds_lock(const struct collector *collector, const struct target *target,
                       struct memory *memory, pid_t tid)
{
    int32_t words[3]; /* glibc: lock, count, owner, which is 0 for an instant; musl: type, lock */

    if (!collector->lock)
        return false;
    if (!memory_read(memory, collector->lock, words, sizeof words))
        return true;
    if (collector->musl)
        return words[1] != 0;
    return words[0] != 0 && (words[2] == 0 || words[2] == own_number(target, tid));
}

/*
 * A thread that answers a stop blocks the collector's signals; libgc's marker
 * threads, which the collector waits for, block all others (pthread_support.c,
 * GC_start_mark_threads, from 7.6 on). Without a collector, that is any thread
 * that leaves the program's signals to others.
 */
bool collector_uses(const struct collector *collector, const struct target *target,
                    struct memory *memory, pid_t tid, uint64_t open, uint64_t mask)
{
    const uint64_t never = BIT(SIGKILL) | BIT(SIGSTOP) | BIT(32) | BIT(33) | BIT(34);

    if (!open)
        return false;
    return (mask & open) || (collector->name && (mask | open | never) == ~0ull) ||
           holds_lock(collector, target, memory, tid);
}
