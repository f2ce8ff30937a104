#include "jemalloc/hooks.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { READS_MAX = 48, HOOKS_MAX = 9 };
enum { ARENAS_LIMIT = 4095 }; /* MALLOCX_ARENA_LIMIT, jemalloc_internal_types.h */

/* mallctl gives the address of struct extent_hooks_s, with nine functions, or the seven functions
 * of chunk_hooks_t themselves. */
static const struct form {
    const char *name;
    size_t pointers; /* words that mallctl copies */
    bool indirect;   /* one pointer, to HOOKS_MAX functions */
} forms[] = {{"extent_hooks", 1, true}, {"chunk_hooks", 7, false}};

/* Several reads in one list of calls: ctl_run cannot read structures. */
struct reads {
    struct injection *injection;
    const struct instance *instance;
    struct arch_call calls[READS_MAX];
    size_t count;
};

struct hooks_search {
    struct injection *injection;
    const struct instance *instance;
    struct hooks_consent *consent;
    const struct form *form; /* NULL: this release has no hooks */
    unsigned arenas, automatic;
    remote_addr cleared; /* address of hooks that have been checked */
};

static fault_code add_read(struct reads *reads, const char *name, uint64_t len, struct fault *fault)
{
    static const remote_addr none[HOOKS_MAX];
    struct arch_call *call = &reads->calls[reads->count++];

    *call = (struct arch_call){.function = reads->instance->mallctl};
    call->args[0] = injection_put(reads->injection, name, strlen(name) + 1);
    call->args[1] = injection_put(reads->injection, none, len);
    call->args[2] = injection_put(reads->injection, &len, sizeof len);
    if (call->args[0] && call->args[1] && call->args[2])
        return FAULT_NONE;
    return fault_set(fault, FAULT_INTERNAL, E2BIG, "mallctl", "%s", name);
}

/* ---- one set of hooks ---- */

fault_code hooks_judge(const struct modules *modules, const struct plan *plan, const char *owner,
                       remote_addr function, struct hooks_consent *consent, struct fault *fault)
{
    const struct module *module = modules_at(modules, function);
    struct hook hook = {.function = function};

    if (!function || ranges_find(&plan->forbidden, function))
        return FAULT_NONE;
    snprintf(hook.what, sizeof hook.what, "%s of the application, %#llx%s%s", owner,
             (unsigned long long)function, module ? " in " : "", module ? module->path : "");
    if (!consent || !consent->given)
        return fault_set(fault, FAULT_HOOKS, 0, "extent hooks", "%s", hook.what);
    if (!consent->used.function)
        consent->used = hook;
    return FAULT_NONE;
}

fault_code hooks_judge_interposed(const struct injection_env *env, struct hooks_consent *consent,
                                  struct fault *fault)
{
    const struct interposed *interposed = &env->plan->interposed;
    char owner[64];

    if (!interposed->name)
        return FAULT_NONE;
    snprintf(owner, sizeof owner, "%s, which jemalloc calls, is a function", interposed->name);
    return hooks_judge(env->modules, env->plan, owner, interposed->function, consent, fault);
}

/* Judges each function; a set that cannot be read is not jemalloc's own. */
static fault_code judge_arena(struct hooks_search *search, unsigned arena, const remote_addr *value,
                              struct fault *fault)
{
    const struct injection_env *env = &search->injection->env;
    remote_addr functions[HOOKS_MAX] = {0};
    fault_code rc = FAULT_NONE;
    char owner[64];

    if (search->form->indirect && (!value[0] || value[0] == search->cleared))
        return FAULT_NONE;
    snprintf(owner, sizeof owner, "arena %u has extent hooks", arena);
    if (!search->form->indirect)
        memcpy(functions, value, search->form->pointers * sizeof *value);
    else if (!memory_read(env->memory, value[0], functions, sizeof functions))
        functions[0] = value[0];
    for (size_t i = 0; i < HOOKS_MAX && rc == FAULT_NONE; i++)
        rc = hooks_judge(env->modules, env->plan, owner, functions[i], search->consent, fault);
    if (search->form->indirect)
        search->cleared = value[0];
    return rc;
}

/* ---- all arenas ---- */

/* Judges the arenas from first on, as many as one list of calls takes. A missing arena has none. */
static fault_code judge_some(struct hooks_search *search, unsigned first, unsigned end,
                             struct fault *fault)
{
    struct reads reads = {.injection = search->injection, .instance = search->instance};
    size_t len = search->form->pointers * sizeof(remote_addr);
    remote_addr value[HOOKS_MAX];
    fault_code rc = FAULT_NONE;
    char name[48];

    for (unsigned i = first; i < end && rc == FAULT_NONE; i++) {
        snprintf(name, sizeof name, "arena.%u.%s", i, search->form->name);
        rc = add_read(&reads, name, len, fault);
    }
    if (rc == FAULT_NONE)
        rc = injection_call(search->injection, reads.calls, reads.count, NULL, fault);
    for (unsigned i = 0; i < reads.count && rc == FAULT_NONE; i++)
        if ((int)reads.calls[i].result == 0 &&
            injection_get(search->injection, reads.calls[i].args[1], value, len))
            rc = judge_arena(search, first + i, value, fault);
    return rc;
}

/* Reads the number of arenas, and finds which of the two names this release has for hooks. */
static fault_code list_arenas(struct hooks_search *search, struct fault *fault)
{
    enum { ARENAS, AUTOMATIC, FORM };
    struct reads reads = {.injection = search->injection, .instance = search->instance};
    fault_code rc = add_read(&reads, "arenas.narenas", 4, fault);
    char name[48];

    if (rc == FAULT_NONE)
        rc = add_read(&reads, "opt.narenas", 4, fault);
    for (size_t i = 0; i < ARRAY_LEN(forms) && rc == FAULT_NONE; i++) {
        snprintf(name, sizeof name, "arena.0.%s", forms[i].name);
        rc = add_read(&reads, name, forms[i].pointers * sizeof(remote_addr), fault);
    }
    if (rc == FAULT_NONE)
        rc = injection_call(search->injection, reads.calls, reads.count, NULL, fault);
    if (rc != FAULT_NONE)
        return rc;
    if ((int)reads.calls[ARENAS].result != 0 ||
        !injection_get(search->injection, reads.calls[ARENAS].args[1], &search->arenas, 4))
        return fault_set(fault, FAULT_CTL_REFUSED, (int)reads.calls[ARENAS].result, "mallctl",
                         "arenas.narenas");
    if (search->arenas > ARENAS_LIMIT)
        return fault_set(fault, FAULT_CTL_REFUSED, 0, "mallctl", "arenas.narenas is %u",
                         search->arenas);
    for (size_t i = ARRAY_LEN(forms); i-- > 0;)
        if ((int)reads.calls[FORM + i].result != ENOENT)
            search->form = &forms[i];
    /* Up to 4.1 jemalloc's own data are in the arena of the thread, whoever created it. */
    search->automatic = search->arenas;
    if (search->form == &forms[0] && (int)reads.calls[AUTOMATIC].result == 0)
        (void)injection_get(search->injection, reads.calls[AUTOMATIC].args[1], &search->automatic,
                            4);
    return FAULT_NONE;
}

fault_code hooks_check(struct injection *injection, const struct instance *instance, int scope,
                       struct hooks_consent *consent, unsigned *arenas, struct fault *fault)
{
    struct hooks_search search = {.injection = injection, .instance = instance, .consent = consent};
    fault_code rc = list_arenas(&search, fault);
    unsigned first = 0, end = search.arenas;

    if (scope >= 0 && (unsigned)scope < end)
        end = (first = (unsigned)scope) + 1;
    else if (scope == HOOKS_AUTOMATIC && search.automatic < end)
        end = search.automatic;
    for (; first < end && rc == FAULT_NONE && search.form; first += READS_MAX)
        rc = judge_some(&search, first, end - first < READS_MAX ? end : first + READS_MAX, fault);
    if (arenas)
        *arenas = search.arenas;
    return rc;
}
