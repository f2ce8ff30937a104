#include "inject/stoppers.h"
#include "elf/function_names.h"
#include "elf/view.h"
#include "host/task.h"
#include "inject/faults.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    LIBGC_SUSPEND = SIGPWR,  /* libgc: gcconfig.h, SIG_SUSPEND */
    LIBGC_RESTART = SIGXCPU, /* and SIG_THR_RESTART */
    PATTERN_MAX = 64,
    LOOKS_NS = 50000000, /* for which the threads are watched, without a signal on its way */
    LOOKS_MOST_NS = 1000000000,
    PAUSE_NS = 1000000,
    WATCHED_NS = 1000000000, /* for which a watch holds good, but for one look before each stop */
    THREADS_LOOKED_AT = 256,
    HANDLER_WORDS =
        1024 /* from the stack pointer of a thread that waits in a handler to its frame */
};

#define BIT(signal) (1ull << ((signal)-1))

/* ---- garbage collectors ---- */

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

static void look_by_library(struct finder *finder)
{
    for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
        if (strncmp(module_name(finder->module), libraries[i], strlen(libraries[i])) == 0) {
            look_at_exports(finder);
            return;
        }
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

/* Programs with a collector linked in, without names. */
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

/*
 * A library is recognized by its name. Other modules are examined only if the
 * process catches two signals that a collector may use, and the symbol tables
 * of their files are read only if the signals are those of a collector:
 * ordinary targets must not wait for that.
 */
fault_code collectors_refuse(const struct modules *modules, const struct target *target,
                             struct memory *memory, struct fault *fault)
{
    struct finder finder = {.modules = modules, .target = target, .memory = memory, .found = KINDS};
    const uint64_t caught = target->status.sig_caught;
    const uint64_t libgc = BIT(LIBGC_SUSPEND) | BIT(LIBGC_RESTART);
    const uint64_t usual = libgc | BIT(SIGUSR1) | BIT(SIGUSR2) | ~(BIT(REALTIME_FIRST) - 1);
    bool catches_two = __builtin_popcountll(caught & usual) >= 2;

    each_module(&finder, look_by_library);
    if (catches_two)
        each_module(&finder, look_at_exports);
    if ((caught & libgc) == libgc) {
        each_module(&finder, look_in_file);
        each_module(&finder, look_for_text);
    }
    if (finder.found == KINDS && catches_two && modules->count)
        look_at_program(&finder);
    if (finder.found == KINDS)
        return FAULT_NONE;
    return fault_set(fault, FAULT_UNSUPPORTED, 0, "plan",
                     "it %s, which stops threads for its garbage collector at any moment; a call "
                     "could hang it for good",
                     what_it_does[finder.found]);
}

/* ---- other programs ---- */

uint64_t stoppers_signals(uint64_t caught)
{
    const uint64_t real_time = ~(BIT(REALTIME_FIRST) - 1);
    const uint64_t meant_for_threads = BIT(SIGUSR1) | BIT(SIGUSR2) | BIT(SIGSTKFLT) | BIT(SIGURG) |
                                       BIT(SIGXCPU) | BIT(SIGXFSZ) | BIT(SIGVTALRM) | BIT(SIGPROF) |
                                       BIT(SIGPWR) | real_time;

    return (caught & real_time & ~BIT(MUSL_SYNCCALL)) == (real_time & ~BIT(MUSL_SYNCCALL))
               ? 0
               : caught & meant_for_threads;
}

/* True if the words above sp contain the address of a signal restorer: a handler's frame. */
static bool is_in_handler(const struct injection_env *env, remote_addr sp)
{
    uint64_t words[HANDLER_WORDS];
    size_t len = sizeof words;

    while (len > MEMORY_PAGE && !memory_read(env->memory, sp, words, len))
        len /= 2;
    if (len <= MEMORY_PAGE)
        len = MEMORY_PAGE - sp % MEMORY_PAGE;
    if (sp % sizeof *words || !memory_read(env->memory, sp, words, len))
        return false;
    for (size_t i = 0; i < len / sizeof *words; i++)
        if (plan_is_restorer(env->plan, words[i]))
            return true;
    return false;
}

/*
 * Returns a thread that waits in the handler of one of the signals, which it blocks; 0: none.
 * *pending: another is about to run it, as soon as it gets a CPU.
 */
static pid_t find_waiting(const struct injection_env *env, uint64_t signals, bool *pending)
{
    const struct target *target = env->target;
    struct proc_syscall at;
    struct proc_status status;
    struct threads threads;
    pid_t found = 0;

    *pending = false;
    if (threads_list(&threads, target, NULL) != FAULT_NONE)
        return 0;
    for (size_t i = 0; i < threads.count && i < THREADS_LOOKED_AT && !found; i++) {
        const struct thread *thread = &threads.list[i];
        if (thread_status(target->proc, target->pid, thread->tid, &status))
            continue;
        *pending |= (status.sig_pending & ~status.sig_blocked & signals) != 0;
        if ((status.sig_blocked & signals) && thread_read_syscall(thread, target, &at) &&
            at.asleep && is_in_handler(env, at.sp))
            found = thread->tid;
    }
    threads_free(&threads);
    return found;
}

/* The watch goes on while a signal is on its way, which ends at the latest after a second. */
static fault_code watch_threads(const struct injection_env *env, uint64_t signals, uint64_t length,
                                struct fault *fault)
{
    const struct timespec pause = {0, PAUSE_NS};
    const uint64_t begun = clock_now();
    uint64_t now = begun, until = begun + length;
    bool pending;

    for (;; now = clock_now()) {
        pid_t tid = find_waiting(env, signals, &pending);
        if (tid)
            return fault_set(fault, FAULT_STOPS_THREADS, 0, "choose a thread", "thread %d",
                             (int)tid);
        if (pending && length)
            until = now + length;
        if (now >= until || now - begun >= LOOKS_MOST_NS)
            return FAULT_NONE;
        if (deadline_interrupted(env->deadline))
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "choose a thread", "%d",
                             env->target->pid);
        if (deadline_passed(env->deadline))
            return fault_set(fault, FAULT_NO_SAFE_POINT, ETIMEDOUT, "choose a thread",
                             "its threads were watched until then");
        nanosleep(&pause, NULL);
    }
}

fault_code stoppers_refuse(const struct injection_env *env, uint64_t *watched_at,
                           struct fault *fault)
{
    bool fresh = *watched_at && clock_now() - *watched_at < WATCHED_NS;
    struct proc_status status;
    uint64_t signals;
    fault_code rc;

    /* The handlers are those of now: it may have installed more since it was opened. */
    if (process_status(env->target->proc, target_via(env->target), &status))
        return FAULT_NONE;
    signals = stoppers_signals(status.sig_caught);
    rc = signals ? watch_threads(env, signals, fresh ? 0 : LOOKS_NS, fault) : FAULT_NONE;
    if (rc == FAULT_NONE && !fresh)
        *watched_at = clock_now();
    return rc;
}
