/*
 * Shows where mallctl is in a process, and the plan of a call in it: the code that is borrowed, and
 * the code in which no thread may be while another calls.
 *
 *   plan PID
 */
#include "run/attachment.h"

#include <stdio.h>
#include <stdlib.h>

static void print_plan(const struct attachment *attachment)
{
    const struct plan *plan = &attachment->caller.plan;

    printf("mallctl at %#llx\n", (unsigned long long)attachment->instance.mallctl);
    printf("system call at %#llx, sigreturn at %#llx\n",
           (unsigned long long)plan->gadgets.syscall_return,
           (unsigned long long)plan->gadgets.sigreturn);
    for (size_t i = 0; i < plan->forbidden.count; i++)
        printf(" %#llx-%#llx %s\n", (unsigned long long)plan->forbidden.list[i].start,
               (unsigned long long)plan->forbidden.list[i].end, plan->forbidden.list[i].what);
}

int main(int argc, char **argv)
{
    static struct attachment attachment;
    const struct attach_request request = {.pid = argc == 2 ? (pid_t)atoi(argv[1]) : 0,
                                           .timeout_ns = 30000000000};
    struct fault fault;
    fault_code rc = attachment_find(&attachment, &request, &fault);

    if (rc == FAULT_NONE)
        rc = caller_prepare(&attachment, &fault);
    if (rc == FAULT_NONE)
        print_plan(&attachment);
    else
        fprintf(stderr, "%s\n", fault.what);
    attachment_close(&attachment);
    return rc == FAULT_NONE ? 0 : 1;
}
