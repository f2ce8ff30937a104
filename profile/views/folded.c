#include "base/text.h"
#include "profile/views/stacks.h"

/* Prepares the names for writing: few names make up many stacks. */
static char **clean_names(const struct locations *locations)
{
    char **clean = calloc(locations->group_count + 1, sizeof *clean);

    for (size_t i = 0; clean && i < locations->group_count; i++)
        clean[i] = text_copy_clean(locations->groups[i], ";");
    return clean;
}

static void free_names(char **clean, size_t count)
{
    for (size_t i = 0; clean && i < count; i++)
        free(clean[i]);
    free(clean);
}

static void write_folded_stack(const struct stacks *stacks, const struct named_stack *stack,
                               char **clean, bool compares, FILE *out)
{
    for (uint32_t i = 0; i < stack->depth; i++) {
        const char *name = clean[stacks->names[stack->first + i]];
        if (i)
            putc_unlocked(';', out);
        fputs_unlocked(name ? name : "?", out);
    }
    if (compares)
        fprintf(out, " %lld", (long long)stack->amount.base);
    fprintf(out, " %lld\n", (long long)stack->amount.now);
}

bool folded_write(const struct samples *samples, const struct display *display, FILE *out)
{
    struct stacks stacks;
    char **clean = clean_names(&samples->locations);
    bool good = clean && stacks_make(&stacks, samples, display->value);

    for (size_t i = 0; good && i < stacks.count && !ferror_unlocked(out); i++) {
        const struct named_stack *stack = &stacks.list[i];
        bool shown =
            samples->compares ? stack->amount.now != stack->amount.base : stack->amount.now != 0;
        if (shown)
            write_folded_stack(&stacks, stack, clean, samples->compares, out);
    }
    if (good)
        stacks_free(&stacks);
    free_names(clean, samples->locations.group_count);
    return good;
}
