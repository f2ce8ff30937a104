#include "cli/output/left_out.h"
#include "cli/message.h"
#include "inject/syscalls.h"

#include <stdio.h>
#include <string.h>

enum { LINES_MAX = 20 };

static void format_why(const struct left_out *left, char *out, size_t size)
{
    const char *call = syscall_name(left->call);
    const char *name = left->signal ? sigabbrev_np(left->signal) : NULL;

    switch (left->end) {
    case POOL_STUCK:
        snprintf(out, size,
                 "its memory or its files do not respond: the kernel waits in %s (userfaultfd, "
                 "FUSE, NFS)",
                 call ? call : "a system call");
        break;
    case POOL_SLOW:
        snprintf(out, size, "its data take too long to read");
        break;
    case POOL_LATE:
        snprintf(out, size, "the time was over while it was examined");
        break;
    default:
        snprintf(out, size, "the worker process that examined it was killed%s%s",
                 name ? " by SIG" : "", name ? name : "");
        break;
    }
}

void left_out_print(const struct left_out *left, size_t count)
{
    size_t printed = 0, rest = 0;
    char why[160], clean[64];

    for (size_t i = 0; i < count; i++) {
        if (left[i].chosen) /* the verb itself says so */
            continue;
        rest += printed == LINES_MAX;
        if (printed == LINES_MAX)
            continue;
        printed++;
        format_why(&left[i], why, sizeof why);
        message("process %d (%s) was left out: %s", (int)left[i].pid,
                message_clean(left[i].name[0] ? left[i].name : "?", clean, sizeof clean), why);
    }
    if (rest)
        message("%zu more process%s left out", rest, rest == 1 ? " was" : "es were");
}

void left_out_json(struct json *json, const struct left_out *left, size_t count)
{
    static const char *const reasons[] = {
        [POOL_LATE] = "late",
        [POOL_STUCK] = "no_answer",
        [POOL_SLOW] = "slow",
        [POOL_LOST] = "lost",
    };

    json_list_begin(json, "left_out_processes");
    for (size_t i = 0; i < count; i++) {
        json_item_begin(json);
        json_number(json, "pid", (uint64_t)left[i].pid);
        json_text(json, "name", left[i].name);
        json_text(json, "reason", reasons[left[i].end]);
        json_item_end(json);
    }
    json_list_end(json);
}
