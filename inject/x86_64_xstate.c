#include "inject/x86_64_xstate.h"

#include <cpuid.h>
#include <stdbool.h>

struct xstate_component xstate_component(unsigned n)
{
    static struct {
        bool known;
        struct xstate_component value;
    } table[XSTATE_COMPONENTS];
    unsigned ecx, edx;

    if (!table[n].known)
        __cpuid_count(0xd, n, table[n].value.size, table[n].value.offset, ecx, edx);
    table[n].known = true;
    return table[n].value;
}
