#include "jemalloc/prof_byte.h"
#include "jemalloc/activate.h"
#include "jemalloc/faults.h"
#include "jemalloc/stripped/stripped.h"

#include <errno.h>

/* Later ones may do more in prof_active_set. */
static bool is_known_version(struct version version)
{
    return version_within(version, VERSION_NUMBER(4, 0, 0), VERSION_NUMBER(5, 99, 99));
}

static bool contradicts(const struct fact_variables *variables, enum fact_variable which,
                        remote_addr proven)
{
    return variables->at[which].address && variables->at[which].address != proven;
}

/* Proves both addresses by the code of this instance. */
static const char *prove_byte(struct prof_byte *byte, const struct instance *instance,
                              const struct target *target, struct memory *memory)
{
    const struct fact_variables *variables = &byte->variables;
    struct globals globals;

    if (!stripped_globals(instance, target, memory, &globals))
        return "the tables of its mallctl were not found";
    if (!globals.prof_active || !globals.opt_prof)
        return "its code does not show which byte prof.active is";
    if (contradicts(variables, VARIABLE_PROF_ACTIVE, globals.prof_active) ||
        contradicts(variables, VARIABLE_OPT_PROF, globals.opt_prof))
        return "its code and its symbols name different bytes";
    byte->at = globals.prof_active;
    if (!contradicts(variables, VARIABLE_THREAD_INIT, globals.thread_init))
        byte->thread_init = globals.thread_init;
    return NULL;
}

const char *prof_byte_find(struct prof_byte *byte, bool active, const struct instance *instance,
                           const struct modules *modules, const struct target *target,
                           struct memory *memory, struct prof_state *state)
{
    byte->at = byte->thread_init = 0;
    byte->visits = false;
    facts_locate(&byte->variables, instance, modules, target, memory);
    byte->located = true;
    facts_read(&byte->variables, memory, state);
    const char *why = prove_byte(byte, instance, target, memory);
    if (why)
        return why;
    if (state->build.opt_prof == FACT_UNKNOWN)
        return "opt.prof is unknown";
    if (state->build.opt_prof == FACT_NO && state->build.config_prof == FACT_UNKNOWN)
        return "opt.prof is false, and whether profiling is compiled in is unknown";
    if (state->build.opt_prof == FACT_YES && !is_known_version(state->build.version))
        return "its version is not known";
    if (state->build.opt_prof == FACT_YES && state->prof_active == FACT_UNKNOWN)
        return "the byte of prof.active is neither 0 nor 1";
    byte->visits =
        active && state->build.opt_prof == FACT_YES && activation_needed(state->build.text);
    return byte->visits ? "in this version, threads that allocated while prof.active was false do "
                          "not sample until they are visited"
                        : NULL;
}

fault_code prof_byte_write(const struct prof_byte *byte, bool active, struct memory *memory,
                           struct fault *fault)
{
    const unsigned char value = active;
    unsigned char now;

    if (!memory_is_same(memory, byte->at))
        return fault_set(fault, FAULT_EXECED, 0, "write prof.active", "%d", (int)memory->pid);
    if (!memory_write_running(memory, byte->at, &value, sizeof value))
        return fault_set(fault, FAULT_UNWRITABLE, errno, "write prof.active", "the kernel refused");
    if (!memory_read(memory, byte->at, &now, sizeof now))
        return fault_set(fault, FAULT_UNWRITABLE, errno, "write prof.active",
                         "it cannot be read back");
    if (now != value)
        return fault_set(fault, FAULT_UNWRITABLE, 0, "write prof.active",
                         "another value was read back, as if the process had written it too");
    return FAULT_NONE;
}
