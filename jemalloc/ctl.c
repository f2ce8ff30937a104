#include "jemalloc/ctl.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <string.h>

/* Addresses of an operation's operands in the scratch area. */
struct operands {
    remote_addr name, old, old_len, new;
};

/* A name that jemalloc copies into the caller's buffer has 32 bytes (ARENA_NAME_LEN, 5.3.1). */
enum { TEXT_BUFFER = 256 };

size_t ctl_type_size(enum ctl_type type)
{
    switch (type) {
    case CTL_BOOL:
        return 1;
    case CTL_UNSIGNED:
    case CTL_FIXED:
        return 4;
    case CTL_VOID:
    case CTL_STRUCT:
        return 0;
    default:
        return 8;
    }
}

/* int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen) */
static bool put_call(struct injection *injection, const struct instance *instance,
                     const struct ctl_op *op, struct operands *operands, struct arch_call *call)
{
    static const char buffer[TEXT_BUFFER];
    const uint64_t len = ctl_type_size(op->type);
    const uint64_t old = op->into_buffer ? injection_put(injection, buffer, sizeof buffer) : 0;
    uint64_t new_value = op->type == CTL_STRING ? op->new_text : op->new_value;

    if (op->into_buffer && !old)
        return false;
    operands->name = injection_put(injection, op->name, strlen(op->name) + 1);
    operands->old = injection_put(injection, &old, sizeof old);
    operands->old_len = injection_put(injection, &len, sizeof len);
    operands->new = injection_put(injection, &new_value, sizeof new_value);

    *call = (struct arch_call){.function = instance->mallctl};
    call->args[0] = operands->name;
    if (!op->write_only && op->type != CTL_VOID) {
        call->args[1] = operands->old;
        call->args[2] = operands->old_len;
    }
    /* For a null path there is no new value, not a pointer to NULL (ctl.c, prof_dump_ctl). */
    if (op->writes && (op->type != CTL_STRING || op->new_text)) {
        call->args[3] = operands->new;
        call->args[4] = len;
    }
    return operands->name && operands->old && operands->old_len && operands->new;
}

static bool take_result(struct injection *injection, struct ctl_op *op, remote_addr old,
                        const struct arch_call *call)
{
    char text[CTL_TEXT_MAX];

    op->rc = (int)call->result;
    op->value = 0;
    op->text = NULL;
    if (op->rc != 0 || op->write_only || op->type == CTL_VOID)
        return true;
    if (!injection_get(injection, old, &op->value, ctl_type_size(op->type)))
        return false;
    if (op->type == CTL_STRING && op->value &&
        memory_read_string(injection->env.memory, op->value, text, sizeof text) >= 0)
        op->text = strdup(text);
    return true;
}

fault_code ctl_run(struct injection *injection, const struct instance *instance, struct ctl_op *ops,
                   size_t count, const struct intercept *intercept, struct fault *fault)
{
    struct operands operands[CTL_OPS_MAX];
    struct arch_call calls[CTL_OPS_MAX];
    fault_code rc;

    if (count > CTL_OPS_MAX)
        return fault_set(fault, FAULT_INTERNAL, E2BIG, "mallctl", "%zu operations", count);
    for (size_t i = 0; i < count; i++) {
        if (ops[i].type == CTL_STRUCT)
            return fault_set(fault, FAULT_INTERNAL, EINVAL, "mallctl", "%s", ops[i].name);
        if (!put_call(injection, instance, &ops[i], &operands[i], &calls[i]))
            return fault_set(fault, FAULT_INTERNAL, E2BIG, "mallctl", "%s", ops[i].name);
    }
    rc = injection_call(injection, calls, count, intercept, fault);
    for (size_t i = 0; i < count && rc == FAULT_NONE; i++)
        if (!take_result(injection, &ops[i], operands[i].old, &calls[i]))
            rc = fault_set(fault, FAULT_INTERNAL, 0, "mallctl", "%s", ops[i].name);
    return rc;
}

void ctl_free(struct ctl_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(ops[i].text);
        ops[i].text = NULL;
    }
}

fault_code ctl_confirm(struct injection *injection, const struct instance *instance,
                       struct fault *fault)
{
    struct ctl_op op = {.name = "version", .type = CTL_STRING};
    fault_code rc;

    if (instance->found_by != FOUND_TABLES)
        return FAULT_NONE;
    rc = ctl_run(injection, instance, &op, 1, NULL, fault);
    if (rc == FAULT_NONE && (op.rc != 0 || !op.text || strcmp(op.text, instance->version) != 0)) {
        rc = fault_set(fault, FAULT_UNSUPPORTED, 0, "read version",
                       "the function found as mallctl in %s does not return its version",
                       instance->path);
        fault_set_reason(fault, UNSUPPORTED_BY_RESULT);
    }
    ctl_free(&op, 1);
    return rc;
}
