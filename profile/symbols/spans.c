#include "profile/symbols/spans.h"
#include "base/list.h"
#include "base/search.h"

#include <stdlib.h>
#include <string.h>

bool spans_add(struct spans *spans, struct span span)
{
    if (span.start >= span.end)
        return true;
    if (spans->count >= SPANS_MAX)
        return false;
    if (!LIST_GROW(spans->list, spans->capacity, spans->count))
        return false;
    spans->list[spans->count++] = span;
    return true;
}

static int compare_span_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* The ranges that are open at the present position: a heap, the deepest first. */
struct sweep {
    const struct span *list;
    uint32_t *heap;
    size_t open;
};

static bool deeper(const struct sweep *sweep, uint32_t a, uint32_t b)
{
    if (sweep->list[a].depth != sweep->list[b].depth)
        return sweep->list[a].depth > sweep->list[b].depth;
    return a > b;
}

static void sweep_push(struct sweep *sweep, uint32_t item)
{
    size_t at = sweep->open++;

    while (at > 0 && deeper(sweep, item, sweep->heap[(at - 1) / 2])) {
        sweep->heap[at] = sweep->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sweep->heap[at] = item;
}

static void sweep_pop(struct sweep *sweep)
{
    uint32_t item = sweep->heap[--sweep->open];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < sweep->open) {
        if (child + 1 < sweep->open && deeper(sweep, sweep->heap[child + 1], sweep->heap[child]))
            child++;
        if (!deeper(sweep, sweep->heap[child], item))
            break;
        sweep->heap[at] = sweep->heap[child];
        at = child;
    }
    sweep->heap[at] = item;
}

/* Adjacent ranges with the same value become one. */
static bool emit_span(struct spans *out, uint64_t start, uint64_t end, uint32_t value)
{
    struct span *last = out->count ? &out->list[out->count - 1] : NULL;

    if (last && last->end == start && last->value == value) {
        last->end = end;
        return true;
    }
    return spans_add(out, (struct span){start, end, 0, value});
}

static bool sweep_run(struct sweep *sweep, size_t count, struct spans *out)
{
    uint64_t at = 0;
    size_t next = 0;

    while (next < count || sweep->open) {
        const struct span *top;
        if (!sweep->open)
            at = sweep->list[next].start;
        for (; next < count && sweep->list[next].start <= at; next++)
            sweep_push(sweep, (uint32_t)next);
        top = &sweep->list[sweep->heap[0]];
        if (top->end <= at) {
            sweep_pop(sweep);
            continue;
        }
        uint64_t end = top->end;
        if (next < count && sweep->list[next].start < end)
            end = sweep->list[next].start;
        if (!emit_span(out, at, end, top->value))
            return false;
        at = end;
    }
    return true;
}

bool spans_finish(struct spans *spans)
{
    struct spans out = {0};
    struct sweep sweep = {0};
    bool good;

    if (spans->count == 0)
        return true;
    qsort(spans->list, spans->count, sizeof *spans->list, compare_span_start);
    sweep.list = spans->list;
    sweep.heap = calloc(spans->count, sizeof *sweep.heap);
    good = sweep.heap && sweep_run(&sweep, spans->count, &out);
    free(sweep.heap);
    spans_free(spans);
    *spans = out;
    if (!good)
        spans_free(spans);
    return good;
}

uint32_t spans_find(const struct spans *spans, uint64_t address)
{
    size_t low = SEARCH_FIRST(i, spans->count, address < spans->list[i].end);
    return low < spans->count && address >= spans->list[low].start ? spans->list[low].value
                                                                   : SPANS_NONE;
}

void spans_free(struct spans *spans)
{
    free(spans->list);
    memset(spans, 0, sizeof *spans);
}
