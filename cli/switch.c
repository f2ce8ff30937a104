/* jeattach on, jeattach off */
#include "cli/attachment.h"
#include "cli/verbs.h"
#include "jemalloc/prof.h"

#include <stdio.h>

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void print_json(const struct attachment *attachment, bool former, bool active)
{
    struct json json;

    json_begin(&json, stdout);
    json_number(&json, "pid", (uint64_t)attachment->target.pid);
    json_text(&json, "name", attachment->target.stat.comm);
    json_bool(&json, "old", former);
    json_bool(&json, "new", active);
    attachment_json(attachment, &json);
    json_end(&json);
}

static void print_text(const struct attachment *attachment, bool former, bool active)
{
    char clean[64];

    if (attachment->options->pid_count > 1)
        printf("%s[%d] ", message_clean(attachment->target.stat.comm, clean, sizeof clean),
               (int)attachment->target.pid);
    if (former == active)
        printf("prof.active: %s (unchanged)\n", truth(active));
    else
        printf("prof.active: %s -> %s\n", truth(former), truth(active));
}

struct change {
    bool active, former;
};

static enum fault_code change_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct change *change = ctx;

    return prof_switch(&attachment->injection, &attachment->instance, change->active,
                       &change->former, fault);
}

static enum fault_code run(struct attachment *attachment, bool active, struct fault *fault)
{
    static const char *const calls[] = {
        "mallctl version, config.prof, opt.prof, prof.active, ... (read)",
        "mallctl prof.active (write, then read back), if it is another value",
    };
    struct change change = {.active = active};
    enum fault_code rc;

    if (attachment->options->dry_run)
        return attachment_describe(attachment, calls, ARRAY_LEN(calls), fault);
    rc = attachment_hold(attachment, change_held, &change, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (attachment->options->json)
        print_json(attachment, change.former, active);
    else
        print_text(attachment, change.former, active);
    return FAULT_NONE;
}

static int switch_to(const struct options *options, pid_t pid, bool active)
{
    const char *verb =
        active ? "switch profiling on in process" : "switch profiling off in process";
    struct attachment attachment;
    struct fault fault;
    enum fault_code rc = attachment_open(&attachment, options, pid, verb, &fault);

    if (rc == FAULT_NONE)
        rc = run(&attachment, active, &fault);
    return attachment_finish(&attachment, rc, &fault);
}

int verb_on(const struct options *options, pid_t pid)
{
    return switch_to(options, pid, true);
}

int verb_off(const struct options *options, pid_t pid)
{
    return switch_to(options, pid, false);
}
