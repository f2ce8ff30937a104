/* The stacks of a profile, in the order of prof.dump, and the numbers of their program counters. */
#include "check.h"
#include "jemalloc/reader/heap_text.h"

#include <stdlib.h>
#include <string.h>

enum { STACKS = 2000, WORDS_MAX = 40 };

struct stack {
    uint64_t words[WORDS_MAX];
    uint32_t count;
};

static struct stack stacks[STACKS];

static uint64_t random_word(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* prof_gctx_comp (prof_data.c) */
static int compare_stacks(const void *a, const void *b)
{
    const struct stack *x = a, *y = b;
    uint32_t common = x->count < y->count ? x->count : y->count;
    int order = memcmp(x->words, y->words, common * sizeof *x->words);

    return order ? order : (x->count > y->count) - (x->count < y->count);
}

/*
 * Stacks that differ only behind a common start, and some that are the start of another. Few
 * different words: their order is that of their bytes, not of their values.
 */
static void make_stacks(unsigned different, uint32_t shared)
{
    uint64_t seed = different;

    for (size_t i = 0; i < STACKS; i++) {
        stacks[i].count = shared + 1 + (uint32_t)(random_word(&seed) % (WORDS_MAX - shared));
        for (uint32_t k = 0; k < stacks[i].count; k++)
            stacks[i].words[k] = k < shared ? 7 : 1 + 0x10ff3 * (random_word(&seed) % different);
    }
}

static bool take_stack(struct model *profile, const struct stack *stack)
{
    struct model read = {0};
    struct gctx gctx = {.words = stack->count, .tctxs = 1};
    bool good = model_reserve_words(&read, stack->count) && model_reserve_tctxs(&read, 1);

    if (good) {
        memcpy(read.words, stack->words, stack->count * sizeof *stack->words);
        read.tctxs[0] = (struct tctx){.counts.at[COUNT_OBJECTS] = 1};
        good = model_take_gctx(profile, &read, &gctx);
    }
    model_free(&read);
    return good;
}

static const char *next_stack(const char *text, const struct stack *stack, bool *same)
{
    char *end;

    text = strstr(text, "\n@");
    *same = text != NULL;
    for (uint32_t i = 0; *same && i < stack->count; i++) {
        text += i ? 0 : 2;
        *same = strtoull(text, &end, 16) == stack->words[i];
        text = end;
    }
    *same &= text && *text == '\n';
    return text;
}

static void check_order(unsigned different, uint32_t shared)
{
    struct model profile = {0};
    const struct heap_text text = {.lg_sample = 19};
    struct sink sink;
    size_t written;
    const char *at;
    bool same = true;

    make_stacks(different, shared);
    sink_init(&sink, 64 << 20);
    for (size_t i = 0; i < STACKS; i++)
        CHECK(take_stack(&profile, &stacks[i]));
    qsort(stacks, STACKS, sizeof *stacks, compare_stacks);
    if (CHECK(heap_text_write(&text, &profile, &sink, &written)) && CHECK(written == STACKS)) {
        CHECK(sink_reserve(&sink, 1));
        sink.bytes[sink.len] = '\0';
        at = (const char *)sink.bytes;
        for (size_t i = 0; i < STACKS && same; i++)
            at = next_stack(at, &stacks[i], &same);
        CHECK(same);
    }
    sink_free(&sink);
    model_free(&profile);
}

int main(void)
{
    check_order(1, 0);
    check_order(2, 39);
    check_order(2, 30);
    check_order(3, 2);
    check_order(300, 0);
    check_order(100000, 1);
    return check_result();
}
