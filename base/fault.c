#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>

fault_code fault_set(struct fault *fault, fault_code code, int err, const char *stage,
                     const char *fmt, ...)
{
    va_list ap;

    if (!fault)
        return code;
    fault->code = code;
    fault->err = err;
    fault->reason = 0;
    fault->stage = stage;
    fault->pid = 0;
    va_start(ap, fmt);
    vsnprintf(fault->what, sizeof fault->what, fmt, ap);
    va_end(ap);
    return code;
}
