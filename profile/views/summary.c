#include "profile/views/summary.h"
#include "profile/stack_text.h"
#include "profile/views/amount_columns.h"
#include "profile/views/call_label.h"
#include "profile/views/large_stacks.h"

/* Three stacks, the sums above them and a heading fit in 24 lines. */
enum { STACKS_SHOWN = 3, CALLS_SHOWN = 4 };

static size_t calls_shown(const struct display *display)
{
    return display->depth == 0               ? CALLS_SHOWN
           : display->depth < STACK_TEXT_MAX ? display->depth
                                             : STACK_TEXT_MAX;
}

static void style_call(const struct display *display, const struct function *function, FILE *out)
{
    if (display->colors)
        fputs(function->kind == CODE_OWN ? "\033[1m" : "\033[2m", out);
}

/* Writes the calls of a stack; the first one follows the numbers, the others are below it. */
static void write_stack_calls(const struct samples *samples, const struct display *display,
                              const struct sample *sample, FILE *out)
{
    size_t indent = amount_columns_width(samples),
           room = display->width > indent ? display->width - indent : 0;
    char label[CALL_LABEL_SIZE];
    struct stack_text text;

    stack_text_choose(samples, sample, calls_shown(display), &text);
    for (size_t i = 0; i < text.count; i++) {
        const struct stack_call *call = &text.calls[i];
        call_label(samples, call->function, call->line, true, room, label);
        fprintf(out, "%*s", i ? (int)indent : 0, "");
        style_call(display, call->function, out);
        fprintf(out, "%s%s\n", label, display->colors ? "\033[0m" : "");
    }
    if (text.left_out)
        fprintf(out, "%*sand %u more call%s%s\n", (int)indent, "", text.left_out,
                text.left_out == 1 ? "" : "s",
                display->depth == DISPLAY_DEPTH_ALL ? "" : " (--depth 0 shows all)");
}

bool summary_write(const struct samples *samples, const struct display *display,
                   const struct amount *whole, FILE *out)
{
    struct large_stack stacks[STACKS_SHOWN];
    size_t count = large_stacks_find(samples, display, STACKS_SHOWN, stacks);

    if (count == SIZE_MAX)
        return false;
    if (count)
        amount_columns_head(samples, display,
                            samples->compares ? "stacks that grew most" : "largest stacks", out);
    for (size_t i = 0; i < count; i++) {
        const struct large_stack *stack = &stacks[i];
        amount_columns_write(samples, display,
                             &(struct amount_columns){&stack->amount, &stack->objects, whole,
                                                      stack->error, stack->within},
                             out);
        write_stack_calls(samples, display, &samples->list[stack->sample], out);
    }
    if (count)
        fputc('\n', out);
    return true;
}
