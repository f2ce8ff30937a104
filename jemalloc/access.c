#include "jemalloc/access.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <string.h>

enum { OPS_OF_ONE = 2, BATCH_TEXTS = 4096, BUFFERS_OF_ONE = 512 };

/* Accesses whose calls go in one list. */
struct batch {
    struct injection *injection;
    const struct instance *instance;
    struct ctl_op ops[CTL_OPS_MAX];
    size_t op_count;
    struct access *first;
    size_t count;
    size_t texts_used; /* bytes of texts: the scratch area is small */
};

static bool is_readable(const struct access *access)
{
    return access->use == NAME_READ ||
           (access->use == NAME_WRITE && access->entry->access & NAME_READ);
}

static size_t text_len(const struct access *access)
{
    return access->use == NAME_WRITE && access->type == CTL_STRING ? strlen(access->text) + 1 : 0;
}

static bool uses_buffer(const struct access *access)
{
    return access->entry->traits & NAME_INTO_BUFFER;
}

/* Returns bytes in the scratch area, in addition to those of every operation. */
static size_t texts_size(const struct access *access)
{
    return text_len(access) + (uses_buffer(access) ? BUFFERS_OF_ONE : 0);
}

static bool fits_in_batch(const struct batch *batch, const struct access *access)
{
    return batch->op_count + OPS_OF_ONE <= CTL_OPS_MAX &&
           batch->texts_used + texts_size(access) <= BATCH_TEXTS;
}

static struct ctl_op *add_op(struct batch *batch, const struct access *access)
{
    struct ctl_op *op = &batch->ops[batch->op_count++];

    *op = (struct ctl_op){
        .name = access->name,
        .type = access->use == NAME_ACT ? CTL_VOID : access->type,
        .write_only = !is_readable(access),
        .into_buffer = uses_buffer(access),
    };
    return op;
}

static bool add_access(struct batch *batch, const struct access *access)
{
    struct ctl_op *op = add_op(batch, access);
    size_t len = text_len(access);

    batch->texts_used += texts_size(access);
    if (access->use != NAME_WRITE)
        return true;
    op->writes = true;
    op->new_value = access->value;
    if (len)
        op->new_text = injection_put(batch->injection, access->text, len);
    if (is_readable(access))
        add_op(batch, access);
    return !len || op->new_text;
}

/* Moves the texts from the operations to the accesses. */
static void take_results(struct batch *batch)
{
    struct ctl_op *op = batch->ops + batch->op_count;

    for (struct access *access = batch->first + batch->count; access-- > batch->first;) {
        if (is_readable(access)) {
            op--;
            access->has_now = op->rc == 0;
            access->now_value = op->value;
            access->now_text = steal_ptr(&op->text);
            access->rc = op->rc;
            if (access->use == NAME_READ)
                continue;
        }
        op--;
        access->has_old = is_readable(access) && op->rc == 0;
        access->old_value = op->value;
        access->old_text = steal_ptr(&op->text);
        access->rc = op->rc ? op->rc : access->rc;
    }
}

static fault_code run_batch(struct batch *batch, struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    if (batch->op_count)
        rc = ctl_run(batch->injection, batch->instance, batch->ops, batch->op_count, NULL, fault);
    if (rc == FAULT_NONE)
        take_results(batch);
    ctl_free(batch->ops, batch->op_count);
    batch->first += batch->count;
    batch->count = batch->op_count = batch->texts_used = 0;
    return rc;
}

static bool wants_epoch(const struct access *list, size_t count)
{
    bool wanted = false;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].name, "epoch") == 0)
            return false;
        wanted |= list[i].entry->traits & NAME_OF_EPOCH;
    }
    return wanted;
}

/* If it is refused, reading the values fails too, so its result is not needed. */
static fault_code refresh_epoch(struct injection *injection, const struct instance *instance,
                                struct fault *fault)
{
    struct ctl_op op = {.name = "epoch", .type = CTL_UINT64, .writes = true, .new_value = 1};
    fault_code rc = ctl_run(injection, instance, &op, 1, NULL, fault);

    if (rc == FAULT_NONE && op.rc != 0)
        rc = fault_set(fault, FAULT_CTL_REFUSED, op.rc, "mallctl", "epoch");
    return rc;
}

fault_code access_run(struct injection *injection, const struct instance *instance,
                      struct access *list, size_t count, struct fault *fault)
{
    struct batch batch = {.injection = injection, .instance = instance, .first = list};
    fault_code rc = FAULT_NONE;

    if (wants_epoch(list, count))
        rc = refresh_epoch(injection, instance, fault);
    for (size_t i = 0; i < count && rc == FAULT_NONE; i++) {
        if (!fits_in_batch(&batch, &list[i]))
            rc = run_batch(&batch, fault);
        if (rc != FAULT_NONE)
            break;
        batch.count++;
        if (!add_access(&batch, &list[i]))
            return fault_set(fault, FAULT_INTERNAL, E2BIG, "mallctl", "%s", list[i].name);
    }
    return rc == FAULT_NONE ? run_batch(&batch, fault) : rc;
}

bool access_kept(const struct access *access)
{
    if (access->use != NAME_WRITE || !access->has_now || access->entry->traits & NAME_ADJUSTS)
        return true;
    if (access->type != CTL_STRING)
        return access->now_value == access->value;
    return access->now_text && strcmp(access->now_text, access->text) == 0;
}

void access_free(struct access *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(list[i].old_text);
        free(list[i].now_text);
        list[i].old_text = list[i].now_text = NULL;
    }
}
