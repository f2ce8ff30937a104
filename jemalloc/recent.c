#include "jemalloc/recent.h"
#include "jemalloc/callback.h"
#include "jemalloc/faults.h"
#include "jemalloc/variable.h"

#include <string.h>

static const char max_name[] = "experimental.prof_recent.alloc_max";

/* ---- which builds ---- */

/*
 * 5.3.0 frees the name of a thread at each of its samples with opt.prof_sys_thread_name
 * (prof_thread_name_set_impl), and alloc_dump follows the pointer without a lock: it can
 * be null at that moment. Since the 57th commit after it the name is an array. Up to the
 * 71st alloc_dump then takes the characters of the name for an address.
 */
enum { NAME_IS_ARRAY = 57, NAME_IS_PRINTED = 71 };

static fault_code judge_build(const struct build *build, bool names_threads, struct fault *fault)
{
    const struct version *version = &build->version;
    unsigned commits = version->commits;

    if (version->number && !version_within(*version, VERSION_NUMBER(5, 3, 0), 0))
        return fault_set(fault, FAULT_RECENT_ABSENT, 0, "read version", "jemalloc %s", build->text);
    if (!version_within(*version, VERSION_NUMBER(5, 3, 0), VERSION_NUMBER(5, 3, 0)))
        return FAULT_NONE;
    if (commits >= NAME_IS_ARRAY && commits < NAME_IS_PRINTED)
        return fault_set(fault, FAULT_RECENT_UNSAFE, 0, "read version",
                         "jemalloc %s follows a wrong pointer while it prints its list",
                         build->text);
    if (commits < NAME_IS_ARRAY && names_threads)
        return fault_set(fault, FAULT_RECENT_UNSAFE, 0, "read opt.prof_sys_thread_name",
                         "with opt.prof_sys_thread_name, jemalloc %s may free the name of a thread "
                         "while it prints it",
                         build->text);
    return FAULT_NONE;
}

/* ---- the beginning ---- */

static fault_code refuse_without_list(const struct build *build, int rc, struct fault *fault)
{
    return fault_set(fault, FAULT_RECENT_ABSENT, rc, "mallctl", "jemalloc %s",
                     build->text[0] ? build->text : "of unknown version");
}

static fault_code write_max(struct injection *injection, const struct instance *instance,
                            struct recent_switch *list, struct fault *fault)
{
    struct ctl_op ops[] = {
        {.name = max_name, .type = CTL_SSIZE, .writes = true, .new_value = (uint64_t)list->wanted},
        {.name = max_name, .type = CTL_SSIZE},
    };
    fault_code rc;

    list->owed = true;
    rc = ctl_run(injection, instance, ops, ARRAY_LEN(ops), NULL, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (ops[0].rc != 0 || ops[1].rc != 0 || (int64_t)ops[1].value != list->wanted) {
        list->owed = ops[0].rc == 0;
        return fault_set(fault, FAULT_CTL_REFUSED, ops[0].rc, "mallctl", max_name);
    }
    return FAULT_NONE;
}

fault_code recent_begin(struct injection *injection, const struct instance *instance,
                        const struct build *build, int64_t count, struct recent_switch *list,
                        struct fault *fault)
{
    enum { MAX, NAMES, RESOLUTION };
    struct ctl_op ops[] = {
        [MAX] = {.name = max_name, .type = CTL_SSIZE},
        [NAMES] = {.name = "opt.prof_sys_thread_name", .type = CTL_BOOL},
        [RESOLUTION] = {.name = "opt.prof_time_resolution", .type = CTL_STRING},
    };
    fault_code rc = judge_build(build, false, fault);

    *list = (struct recent_switch){.wanted = count};
    if (rc == FAULT_NONE)
        rc = ctl_run(injection, instance, ops, ARRAY_LEN(ops), NULL, fault);
    if (rc != FAULT_NONE)
        return rc;
    list->former = (int64_t)ops[MAX].value;
    list->realtime = ops[RESOLUTION].text && strcmp(ops[RESOLUTION].text, "high") == 0;
    rc = ops[MAX].rc != 0 ? refuse_without_list(build, ops[MAX].rc, fault)
                          : judge_build(build, ctl_is_true(&ops[NAMES]), fault);
    ctl_free(ops, ARRAY_LEN(ops));
    if (rc != FAULT_NONE)
        return rc;
    if (list->former < 0 || list->former >= count) /* less would drop records of others */
        list->wanted = list->former;
    return list->wanted == list->former ? FAULT_NONE : write_max(injection, instance, list, fault);
}

/* ---- the end ---- */

/* Another program's value, and the records with it, are not ours to change. */
static fault_code look_for_others(struct injection *injection, const struct instance *instance,
                                  struct recent_switch *list, struct fault *fault)
{
    struct ctl_op op = {.name = max_name, .type = CTL_SSIZE};
    fault_code rc = ctl_run(injection, instance, &op, 1, NULL, fault);

    if (rc == FAULT_NONE && op.rc != 0)
        rc = fault_set(fault, FAULT_CTL_REFUSED, op.rc, "mallctl", max_name);
    if (rc != FAULT_NONE)
        return rc;
    list->foreign |= (int64_t)op.value != list->wanted && (int64_t)op.value != list->former;
    if (list->foreign || (int64_t)op.value == list->former)
        list->owed = false;
    return FAULT_NONE;
}

/* struct write_cb_packet_s (5.3.0 ctl.c) */
struct dump_packet {
    remote_addr function, context;
};

/* Operands of the calls, in the scratch area. */
struct recent_operands {
    remote_addr dump_name, packet, name, old, old_len, new;
};

static bool put_recent(struct injection *injection, const struct callback *callback, int64_t former,
                       struct recent_operands *at)
{
    static const char dump_name[] = "experimental.prof_recent.alloc_dump";
    const struct dump_packet packet = {callback->gather.function, callback->gather.context};
    const uint64_t old = 0, len = sizeof old;

    at->dump_name = injection_put(injection, dump_name, sizeof dump_name);
    at->packet = injection_put(injection, &packet, sizeof packet);
    at->name = injection_put(injection, max_name, sizeof max_name);
    at->old = injection_put(injection, &old, sizeof old);
    at->old_len = injection_put(injection, &len, sizeof len);
    at->new = injection_put(injection, &former, sizeof former);
    return at->dump_name && at->packet && at->name && at->old && at->old_len && at->new;
}

/* Judges alloc_max as it was read back after the write. */
static fault_code judge_restored(struct injection *injection, struct recent_switch *list, int rc,
                                 remote_addr value_at, struct fault *fault)
{
    int64_t value = 0;

    if (rc != 0 || !injection_get(injection, value_at, &value, sizeof value) ||
        value != list->former)
        return fault_set(fault, FAULT_CTL_REFUSED, rc, "mallctl", max_name);
    list->owed = false;
    return FAULT_NONE;
}

/*
 * mallctl(alloc_dump), [flush], mallctl(alloc_max = former), mallctl(alloc_max). The
 * writes are read back although the first one may have been refused.
 */
static fault_code dump_and_restore(struct injection *injection, const struct instance *instance,
                                   struct recent_switch *list, struct callback *callback,
                                   struct fault *fault)
{
    enum { CALLS = 4 };
    struct recent_operands at;
    struct arch_call calls[CALLS] = {{.function = instance->mallctl}};
    size_t count = 1;
    fault_code rc;

    if (!put_recent(injection, callback, list->former, &at))
        return fault_set(fault, FAULT_INTERNAL, E2BIG, "mallctl", max_name);
    calls[0].args[0] = at.dump_name;
    calls[0].args[3] = at.packet;
    calls[0].args[4] = sizeof(struct dump_packet);
    if (callback->gathers)
        calls[count++] = callback->gather.flush;
    if (list->owed) {
        calls[count++] = (struct arch_call){.function = instance->mallctl,
                                            .args = {at.name, 0, 0, at.new, sizeof list->former}};
        calls[count++] = (struct arch_call){.function = instance->mallctl,
                                            .args = {at.name, at.old, at.old_len}};
    }
    rc = injection_call(injection, calls, count, &callback->intercept, fault);
    if (fault_is_unfinished(rc) && !injection->direct)
        list->owed = false; /* the target finishes the whole list of calls */
    if (rc == FAULT_NONE && list->owed)
        rc = judge_restored(injection, list, (int)calls[count - 2].result, at.old, fault);
    if (rc == FAULT_NONE && (int)calls[0].result != 0)
        rc = fault_set(fault, FAULT_CTL_REFUSED, (int)calls[0].result, "mallctl",
                       "experimental.prof_recent.alloc_dump");
    return rc;
}

fault_code recent_take(struct injection *injection, const struct instance *instance,
                       struct recent_switch *list, remote_addr message_at, struct sink *sink,
                       struct fault *fault)
{
    struct callback callback;
    fault_code rc = look_for_others(injection, instance, list, fault);

    if (rc != FAULT_NONE)
        return rc;
    callback_begin(&callback, injection, sink);
    if (!callback.gathers && variable_value(message_at, injection->env.memory))
        return fault_set(fault, FAULT_RECENT_UNSAFE, 0, "alloc_dump",
                         "the program has set malloc_message to its own function, which would be "
                         "called with the list, because executable memory is not allowed");
    rc = dump_and_restore(injection, instance, list, &callback, fault);
    return rc == FAULT_NONE ? callback_end(&callback, "experimental.prof_recent.alloc_dump", fault)
                            : rc;
}

fault_code recent_restore(struct injection *injection, const struct instance *instance,
                          struct recent_switch *list, struct fault *fault)
{
    struct ctl_op ops[] = {
        {.name = max_name, .type = CTL_SSIZE, .writes = true, .new_value = (uint64_t)list->former},
        {.name = max_name, .type = CTL_SSIZE},
    };
    fault_code rc = look_for_others(injection, instance, list, fault);

    if (rc != FAULT_NONE || !list->owed)
        return rc;
    rc = ctl_run(injection, instance, ops, ARRAY_LEN(ops), NULL, fault);
    if (rc == FAULT_NONE && (ops[0].rc != 0 || (int64_t)ops[1].value != list->former))
        rc = fault_set(fault, FAULT_CTL_REFUSED, ops[0].rc, "mallctl", max_name);
    list->owed = rc != FAULT_NONE;
    return rc;
}
