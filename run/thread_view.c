#include "run/thread_view.h"

#include <string.h>

/* What switching_find has just read is not read again: that takes time on the way of `on`. */
static void locate_variables(struct thread_view *view, struct attachment *attachment)
{
    if (attachment->byte.located)
        view->variables = attachment->byte.variables;
    else
        facts_locate(&view->variables, &attachment->instance, &attachment->modules,
                     &attachment->target, &attachment->memory);
}

fault_code thread_view_read(struct thread_view *view, struct attachment *attachment, int64_t offset,
                            struct fault *fault)
{
    struct tsd_place *place = &attachment->threads_place;
    fault_code rc;

    memset(view, 0, sizeof *view);
    locate_variables(view, attachment);
    view->source = (struct tsd_source){.instance = &attachment->instance,
                                       .modules = &attachment->modules,
                                       .target = &attachment->target,
                                       .memory = &attachment->memory,
                                       .variables = &view->variables,
                                       .place = place->layout ? place : NULL,
                                       .offset = offset};
    rc = tsd_threads_read(&view->threads, &view->source, fault);
    *place = view->threads.place;
    return rc;
}

void thread_view_free(struct thread_view *view)
{
    tsd_threads_free(&view->threads);
}
