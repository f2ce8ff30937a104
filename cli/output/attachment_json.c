#include "cli/output/attachment_json.h"
#include "profile/stack_text.h"
#include "run/access.h"

void attachment_json_begin(const struct attachment *attachment, struct json *json)
{
    json_begin(json, stdout);
    json_number(json, "pid", (uint64_t)attachment->target.pid);
    json_number(json, "ns_pid", (uint64_t)target_ns_pid(&attachment->target));
    json_text(json, "name", attachment->target.stat.comm);
}

void attachment_json(const struct attachment *attachment, struct json *json)
{
    const struct injection_summary *summary = &attachment->caller.injection.summary;

    json_number(json, "thread", (uint64_t)summary->tid);
    json_number(json, "held_ns", summary->held_ns);
    json_number(json, "calls", summary->calls);
    json_number(json, "stops", summary->attempts);
    json_number(json, "search_ns", summary->search_ns);
}

void way_json(const struct attachment *attachment, bool calls, struct json *json)
{
    const struct read_summary *read = &attachment->read;

    json_text(json, "way", calls ? "call" : "memory");
    if (!read->count) {
        json_null(json, "read_ns");
        json_null(json, "unsettled");
        return;
    }
    json_number(json, "read_ns", read->last.ns);
    json_number(json, "unsettled", read->last.unsettled);
}

void cut_short_json(uint64_t age_ns, struct json *json)
{
    json_bool(json, "cut_short", age_ns);
    json_number_or_null(json, "age_ns", age_ns, age_ns);
}

void sampling_json(const struct sampling *sampling, struct json *json)
{
    json_number(json, "sampled_ns", sampling_ns(sampling));
    json_bool(json, "old", prof_is_active(&sampling->former));
    json_bool(json, "new", sampling->active);
    json_bool(json, "toggled_by_other", sampling->foreign);
    json_bool(json, "left_on", sampling->left_on);
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
    while ((call = stack_walk_next(&walk, samples, sample))) {
        json_item_begin(json);
        json_text(json, "function", call->function->name);
        json_text_or_null(json, "file", call->function->file);
        json_number(json, "line", call->line);
        json_item_end(json);
    }
    json_list_end(json);
}

void facts_json(struct json *json, const char *name, enum fact fact)
{
    if (fact == FACT_UNKNOWN)
        json_null(json, name);
    else
        json_bool(json, name, fact == FACT_YES);
}
