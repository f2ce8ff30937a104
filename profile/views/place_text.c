#include "profile/views/place_text.h"
#include "base/text.h"
#include "profile/names/short_name.h"
#include "profile/stack_text.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256, PLACE_CALLS = 2 };
_Static_assert(PLACE_CALLS *(NAME_BYTES + 128) <= PLACE_TEXT_SIZE, "all calls fit");

/* "session_new (session.c:81)" */
static int describe_call(const struct stack_call *call, char *out, size_t size)
{
    char name[NAME_BYTES];
    int len;

    short_name(call->function->name, name, sizeof name);
    len = snprintf(out, size, "%s", name);
    if (call->function->file && *call->function->file && call->line)
        len += snprintf(out + len, size - (size_t)len, " (%.100s:%u)",
                        text_base_name(call->function->file), call->line);
    return len;
}

const char *place_text(const struct samples *samples, const struct sample *sample,
                       char out[PLACE_TEXT_SIZE])
{
    const char *before = "";
    struct stack_text stack;
    int len = 0;

    stack_text_choose(samples, sample, 0, &stack);
    if (!stack.count)
        strcpy(out, "a stack without calls");
    for (size_t i = 0; i < stack.count && i < PLACE_CALLS; i++) {
        len += snprintf(out + len, (size_t)(PLACE_TEXT_SIZE - len), "%s", before);
        len += describe_call(&stack.calls[i], out + len, (size_t)(PLACE_TEXT_SIZE - len));
        before = " <- ";
    }
    return out;
}
