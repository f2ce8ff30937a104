#include "run/top_stack.h"
#include "profile/stack_text.h"
#include "profile/views/call_label.h"

#include <stdio.h>
#include <string.h>

bool top_stack_open(struct top_stack *stack, const struct site *site)
{
    top_stack_close(stack);
    stack->calls = malloc(site->len);
    stack->len = site->len;
    if (stack->calls)
        memcpy(stack->calls, site->calls, site->len);
    return stack->calls != NULL;
}

void top_stack_close(struct top_stack *stack)
{
    free(stack->calls);
    free(stack->text);
    *stack = (struct top_stack){0};
}

const struct site *top_stack_site(const struct top_stack *stack, const struct sites *sites)
{
    for (size_t i = 0; i < sites->count; i++)
        if (sites->list[i].len == stack->len &&
            memcmp(sites->list[i].calls, stack->calls, stack->len) == 0)
            return &sites->list[i];
    return NULL;
}

static bool write_stack_text(struct top_stack *stack, const struct samples *samples,
                             const struct sample *sample)
{
    struct stack_walk walk = {0};
    const struct stack_call *call;
    char label[CALL_LABEL_SIZE];
    size_t size;
    FILE *out = open_memstream(&stack->text, &size);

    while (out && (call = stack_walk_next(&walk, samples, sample))) {
        call_label(samples, call->function, call->line, true, 0, label);
        fprintf(out, "%s\n", label);
    }
    return out && fclose(out) == 0;
}

/* Finds the stacks of the site, and writes the largest. */
static bool take_largest(struct top_stack *stack, const struct sites *sites,
                         const struct samples *samples, size_t stacks)
{
    const struct site *site = top_stack_site(stack, sites);
    AUTO_FREE uint32_t *site_of = reallocarray(NULL, stacks + 1, sizeof *site_of);
    const struct sample *largest = NULL;

    if (!site_of)
        return false;
    memset(site_of, 0xff, (stacks + 1) * sizeof *site_of);
    sites_number(sites, samples, site_of);
    for (size_t i = 0; site && i < samples->count; i++) {
        const struct sample *sample = &samples->list[i];
        if (site_of[sample->stack] != site - sites->list)
            continue;
        stack->stacks++;
        if (!largest || sample->values[VALUE_BYTES].now > largest->values[VALUE_BYTES].now)
            largest = sample;
    }
    if (!largest)
        return true;
    stack->bytes = largest->values[VALUE_BYTES].now;
    stack->objects = largest->values[VALUE_OBJECTS].now;
    return write_stack_text(stack, samples, largest);
}

bool top_stack_take(struct top_stack *stack, struct top_refresh *refresh)
{
    struct heap_profile profile;
    struct samples samples = {0};
    struct symbols *symbols;
    struct fault ignored;
    bool good = true;

    free(stack->text);
    stack->text = NULL;
    stack->stacks = 0;
    stack->bytes = stack->objects = 0;
    if (!stack->calls || !refresh->model.sites)
        return true;
    if (heap_parse(&profile, (const char *)refresh->capture.text.bytes, refresh->capture.text.len,
                   &ignored) == FAULT_NONE) {
        symbols = name_cache_symbols(&refresh->names, &profile);
        refresh->names_until.at = clock_now() + refresh->attachment.request.timeout_ns;
        good = symbols &&
               samples_build(&samples, refresh->samples, &profile, symbols, NULL, NULL) &&
               take_largest(stack, &refresh->sites, &samples, profile.stack_count);
        samples_free(&samples);
    }
    heap_free(&profile);
    return good;
}
