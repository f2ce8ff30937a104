#include "cli/output/attachment_json.h"
#include "profile/stack_text.h"
#include "run/access.h"

void attachment_json_begin(const struct attachment *attachment, struct json *json)
{
    json_begin(json, stdout);
    JSON_MEMBERS(json, NUMBER("pid", attachment->target.pid),
                 NUMBER("ns_pid", target_ns_pid(&attachment->target)),
                 TEXT("name", attachment->target.stat.comm));
}

void attachment_json(const struct attachment *attachment, struct json *json)
{
    const struct injection_summary *summary = &attachment->caller.injection.summary;

    JSON_MEMBERS(json, NUMBER("thread", summary->tid), NUMBER("held_ns", summary->held_ns),
                 NUMBER("calls", summary->calls), NUMBER("stops", summary->attempts),
                 NUMBER("search_ns", summary->search_ns));
}

void way_json(const struct attachment *attachment, bool calls, struct json *json)
{
    const struct read_summary *read = &attachment->read;

    JSON_MEMBERS(json, TEXT("way", calls ? "call" : "memory"),
                 NUMBER_IF(read->count, "read_ns", read->last.ns),
                 NUMBER_IF(read->count, "unsettled", read->last.unsettled));
}

void sampling_json(const struct sampling *sampling, struct json *json)
{
    JSON_MEMBERS(json, NUMBER("sampled_ns", sampling_ns(sampling)),
                 FLAG("old", prof_is_active(&sampling->former)), FLAG("new", sampling->active),
                 FLAG("toggled_by_other", sampling->foreign), FLAG("left_on", sampling->left_on));
    json_list_begin(json, "children_left");
    for (size_t i = 0; i < sampling->children.count && i < CHILDREN_LISTED; i++)
        json_item_signed(json, sampling->children.first[i]);
    json_list_end(json);
    json_bool(json, "interrupted", sampling->interrupted);
}

void stack_json(struct json *json, const char *name, const struct samples *samples,
                const struct sample *sample)
{
    const struct stack_call *call;
    struct stack_walk walk = {0};

    json_list_begin(json, name);
    while ((call = stack_walk_next(&walk, samples, sample)))
        JSON_ITEM(json, TEXT("function", call->function->name),
                  TEXT_OR_NULL("file", call->function->file), NUMBER("line", call->line));
    json_list_end(json);
}
