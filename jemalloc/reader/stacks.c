#include "jemalloc/reader/stacks.h"
#include "attach/deadline.h"
#include "jemalloc/reader/nodes.h"
#include "jemalloc/reader/table.h"

#include <string.h>

struct stack_reader {
    const struct stacks_request *request;
    struct nodes nodes;
    struct model *model;        /* the result */
    struct model first, second; /* two reads of the same stacks */
    struct addresses known;     /* read, or tried */
    struct addresses failed;    /* tried, and never the same twice */
    enum stacks_end end;
};

static size_t model_bytes(const struct model *model)
{
    return model->gctx_count * sizeof *model->gctxs + model->tctx_count * sizeof *model->tctxs +
           model->code_count * sizeof *model->codes +
           model->dictionary.count * DICTIONARY_WORD_BYTES;
}

static bool stop_reading(struct stack_reader *reader, enum stacks_end why)
{
    reader->end = why;
    return false;
}

static bool may_go_on(struct stack_reader *reader)
{
    const struct stacks_request *request = reader->request;

    if (model_bytes(reader->model) > request->limit)
        return stop_reading(reader, STACKS_TOO_MANY);
    if (request->deadline && deadline_is_over(request->deadline))
        return stop_reading(reader, STACKS_LATE);
    return true;
}

static bool read_both(struct stack_reader *reader, const remote_addr *addrs, size_t count)
{
    model_clear(&reader->first);
    model_clear(&reader->second);
    if (!nodes_read(&reader->nodes, addrs, count, &reader->first) ||
        (!reader->request->is_still && !nodes_read(&reader->nodes, addrs, count, &reader->second)))
        return stop_reading(reader, STACKS_NO_MEMORY);
    return true;
}

static bool is_settled(const struct stack_reader *reader, size_t i)
{
    const struct gctx *gctx = &reader->first.gctxs[i];

    if (reader->request->is_still || !gctx->is_proven)
        return gctx->is_proven;
    return reader->second.gctxs[i].is_proven &&
           model_same_gctx(&reader->first, gctx, &reader->second, &reader->second.gctxs[i]);
}

/* Takes the settled ones of up to NODES_MAX stacks; moves the others to the front of addrs. */
static bool read_stacks(struct stack_reader *reader, remote_addr *addrs, size_t *count)
{
    size_t left = 0;

    if (!may_go_on(reader) || !read_both(reader, addrs, *count))
        return false;
    for (size_t i = 0; i < *count; i++) {
        if (!is_settled(reader, i))
            addrs[left++] = addrs[i];
        else if (!model_take_gctx(reader->model, &reader->first, &reader->first.gctxs[i]))
            return stop_reading(reader, STACKS_NO_MEMORY);
    }
    *count = left;
    return true;
}

/*
 * Two reads that agree show how a stack was at the moment between them, which is
 * the same moment for all of these. While fewer and fewer are left, so are these
 * moments close to each other.
 */
static bool read_shrinking(struct stack_reader *reader, remote_addr *addrs, size_t *count)
{
    size_t before;

    do {
        before = *count;
        if (!read_stacks(reader, addrs, count))
            return false;
    } while (*count > 1 && *count <= before / 2 && !reader->request->is_still);
    return true;
}

/* One after the other: the less time between its two reads, the rarer the change. */
static bool read_again(struct stack_reader *reader, remote_addr *addrs, size_t *count)
{
    const unsigned tries = reader->request->is_still ? 1 : STACK_READS_MAX;
    size_t left = 0, one;

    for (size_t i = 0; i < *count; i++) {
        remote_addr addr = addrs[i];
        one = 1;
        for (unsigned k = 0; k < tries && one; k++)
            if (!read_stacks(reader, &addr, &one))
                return false;
        if (one)
            addrs[left++] = addr;
    }
    *count = left;
    return true;
}

static bool read_addresses(struct stack_reader *reader, struct addresses *fresh)
{
    for (size_t at = 0, n; at < fresh->count; at += n) {
        size_t left = n = fresh->count - at < NODES_MAX ? fresh->count - at : NODES_MAX;
        struct addresses failed = {fresh->list + at, 0, 0};
        if (!read_shrinking(reader, fresh->list + at, &left) ||
            !read_again(reader, fresh->list + at, &left))
            return false;
        failed.count = left;
        if (!addresses_merge(&reader->failed, &failed))
            return stop_reading(reader, STACKS_NO_MEMORY);
    }
    return true;
}

static bool read_fresh(struct stack_reader *reader, const struct addresses *now, bool *more)
{
    struct addresses fresh = {0};
    bool good = addresses_minus(now, &reader->known, &fresh);

    *more = fresh.count > 0;
    if (!good || !addresses_merge(&reader->known, &fresh))
        good = stop_reading(reader, STACKS_NO_MEMORY);
    else
        good = read_addresses(reader, &fresh);
    addresses_free(&fresh);
    return good;
}

/* Stacks that are no longer in the table have been freed, and are not missing. */
static size_t count_unsettled(const struct stack_reader *reader, const struct addresses *now)
{
    size_t count = 0;

    for (size_t i = 0; i < reader->failed.count; i++)
        count += addresses_have(now, reader->failed.list[i]);
    return count;
}

/* Looks at the table until it has nothing new: while it grows it is incomplete. */
static size_t read_table(struct stack_reader *reader)
{
    const struct stacks_request *request = reader->request;
    struct table_contents now = {0};
    size_t odd = 0, unsettled = 0;
    bool more = true;

    for (unsigned i = 0; i < TABLE_LOOKS_MAX && more; i++) {
        if (!table_read(request->batch->memory, request->layout, request->table, request->is_still,
                        &now, &odd))
            more = stop_reading(reader, STACKS_UNREADABLE);
        else if (!read_fresh(reader, &now.addresses, &more) || request->is_still)
            break;
    }
    unsettled = count_unsettled(reader, &now.addresses) + odd;
    table_forget(&now);
    return unsettled;
}

enum stacks_end stacks_read(const struct stacks_request *request, struct model *model,
                            size_t *unsettled)
{
    struct stack_reader reader = {.request = request, .model = model, .end = STACKS_READ};

    if (nodes_open(&reader.nodes, request->layout, request->batch))
        *unsettled = read_table(&reader);
    else
        reader.end = STACKS_NO_MEMORY;
    nodes_close(&reader.nodes);
    model_free(&reader.first);
    model_free(&reader.second);
    addresses_free(&reader.known);
    addresses_free(&reader.failed);
    return reader.end;
}
