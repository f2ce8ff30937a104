/* The calls of a stack for little room: which are chosen, and how many are left out. */
#include "check.h"
#include "profile/stack_text.h"
#include "profile/views/display.h"

#include <string.h>

enum { CALLS = 12 };

/* Stacks of one line per location, except the first, which has two. */
struct stack {
    struct function functions[CALLS];
    struct location_line lines[CALLS];
    struct location list[CALLS];
    uint32_t calls[CALLS];
    struct samples samples;
    struct sample sample;
};

/* kinds: 'o' own, 'p' plumbing, 's' system; the first two are of one location. */
static void make_stack(struct stack *stack, const char *kinds)
{
    uint32_t count = (uint32_t)strlen(kinds), locations = 0;

    memset(stack, 0, sizeof *stack);
    for (uint32_t i = 0; i < count; i++) {
        stack->functions[i].kind = kinds[i] == 'o'   ? CODE_OWN
                                   : kinds[i] == 'p' ? CODE_PLUMBING
                                                     : CODE_SYSTEM;
        stack->lines[i] = (struct location_line){i, 10 + i};
        if (i == 1) {
            stack->list[0].count = 2;
            continue;
        }
        stack->list[locations] = (struct location){.first = i, .count = 1};
        stack->calls[locations] = locations;
        locations++;
    }
    stack->samples.locations.functions = stack->functions;
    stack->samples.locations.lines = stack->lines;
    stack->samples.locations.list = stack->list;
    stack->samples.calls = stack->calls;
    stack->sample.depth = locations;
}

/* places: those of the chosen calls, as digits. */
static bool chooses(const char *kinds, size_t limit, const char *places, uint32_t left_out)
{
    static struct stack_text text;
    struct stack stack;
    char got[CALLS + 1] = "";

    make_stack(&stack, kinds);
    stack_text_choose(&stack.samples, &stack.sample, limit, &text);
    for (size_t i = 0; i < text.count; i++) {
        got[i] = (char)('0' + text.calls[i].place);
        CHECK(text.calls[i].line == 10 + text.calls[i].place);
        CHECK(text.calls[i].function == &stack.functions[text.calls[i].place]);
    }
    if (strcmp(got, places) != 0 || text.left_out != left_out)
        fprintf(stderr, "  %s, %zu: got %s, %u left out\n", kinds, limit, got, text.left_out);
    return strcmp(got, places) == 0 && text.left_out == left_out;
}

static void test_own_calls(void)
{
    CHECK(chooses("oposs", 0, "02", 3));
    CHECK(chooses("oo", 0, "01", 0));
    CHECK(chooses("oooooooooo", 0, "01234567", 2));
    CHECK(chooses("ppss", 0, "0123", 0));
    CHECK(chooses("ppssppssss", 0, "01234567", 2));
    CHECK(chooses("", 0, "", 0));
}

static void test_limit(void)
{
    CHECK(chooses("oposs", 5, "01234", 0));
    CHECK(chooses("oposs", DISPLAY_DEPTH_ALL, "01234", 0));
    CHECK(chooses("oposs", 3, "02", 3));
    CHECK(chooses("ppsss", 3, "012", 2));
    CHECK(chooses("opopo", 3, "024", 2));
    CHECK(chooses("ppoo", 1, "2", 3));
    CHECK(chooses("ppss", 1, "0", 3));
}

static void test_count(void)
{
    struct stack stack;
    uint32_t own;

    make_stack(&stack, "oposs");
    CHECK(stack_count_calls(&stack.samples, &stack.sample, &own) == 5 && own == 2);
    stack.list[1].count = 0; /* a filter hides its lines */
    CHECK(stack_count_calls(&stack.samples, &stack.sample, &own) == 4 && own == 1);
}

int main(void)
{
    test_own_calls();
    test_limit();
    test_count();
    return check_result();
}
