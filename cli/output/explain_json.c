#include "cli/output/explain_json.h"
#include "cli/output/explain_text.h"
#include "cli/output/explain_words.h"
#include "cli/output/usage.h"
#include "cli/verdict.h"
#include "profile/names/short_name.h"

#include <stdio.h>

enum { NAME_BYTES = 48, CALLS_SHOWN = 3, CAUSE_BYTES = 200 };

static void limit_json(const struct explain *explain, struct json *json)
{
    JSON_OBJECT_IF(
        explain->limited, json, "limit", TEXT("of", explain->machine ? "machine" : "cgroup"),
        NUMBER("bytes", explain->use.limit), NUMBER("used", explain->use.used),
        NUMBER("left", explain_space_left(explain)), FLAG("counts_rss", explain->counts_rss),
        WHEN(explain->events.known, NUMBER("oom_kills", explain->events.oom_kills)),
        WHEN(explain->has_pressure, ROUNDED("stalled_us_per_second", explain->stalled * 1e6)));
}

static void own_limit_json(const struct explain *explain, struct json *json)
{
    const struct own_limit *limit = &explain->own_limit;
    uint64_t left;

    JSON_OBJECT_IF(limit->of != OWN_LIMIT_NONE, json, "own_limit", TEXT("option", limit->option),
                   TEXT_OR_NULL("variable", limit->variable),
                   NUMBER_IF(limit->bytes > 0, "bytes", limit->bytes),
                   FLAG("default", limit->is_default),
                   NUMBER_IF(explain_own_time_left(explain, &left), "reached_in_ns", left));
}

/* What else its cgroup has. */
static void group_json(const struct explain *explain, struct json *json)
{
    const struct group_account *group = &explain->group;

    if (!group->known) {
        json_null(json, "others");
        return;
    }
    json_object_begin(json, "others");
    for (enum group_kind kind = 0; kind < GROUP_KINDS; kind++)
        json_number(json, group_labels[kind].json, group->kinds[kind]);
    json_list_begin(json, "largest");
    for (size_t i = 0; i < GROUP_LARGEST && group->largest[i].pid; i++)
        JSON_ITEM(json, NUMBER("pid", group->largest[i].pid),
                  TEXT("command", group->largest[i].comm), NUMBER("bytes", group->largest[i].own));
    json_list_end(json);
    json_number_or_null(json, "of_first", !group->whole, group->processes);
    json_object_end(json);
}

static void growth_json(const struct explain *explain, struct json *json)
{
    static const char *const states[] = {
        [RISE_UNKNOWN] = "unknown", [RISE_NONE] = "none",         [RISE_GROWING] = "growing",
        [RISE_STEP] = "step",       [RISE_SWINGING] = "swinging", [RISE_FALLING] = "falling",
    };
    uint64_t left;

    JSON_OBJECT(json, "growth", TEXT("state", states[explain->rise.state]),
                SIGNED("bytes", explain->rise.change),
                SIGNED("rss_bytes", explain->rss_rise.change),
                FLAG("objects_grow", explain->objects_grow), NUMBER("ns", explain->rise.ns),
                NUMBER_IF(explain_time_left(explain, &left), "limit_in_ns", left));
}

static void parts_json(const struct explain *explain, struct json *json)
{
    const bool detailed = explain_detailed(explain);
    uint64_t kinds[OUTSIDE_KINDS];

    explain_kinds(explain, kinds);
    json_object_begin(json, "parts");
    for (enum explain_outside kind = 0; kind < OUTSIDE_KINDS; kind++)
        if (detailed || kind == OUTSIDE_ANONYMOUS || kind == OUTSIDE_FILES ||
            kind == OUTSIDE_SHARED)
            json_number(json, kind_labels[kind].json, kinds[kind]);
    if (detailed)
        JSON_MEMBERS(json, NUMBER("huge", explain->parts.huge),
                     NUMBER("lazy_free", explain->parts.lazy_free));
    json_object_end(json);
}

/* The parts by the names that stats has for them; what is not known is null. */
static void explained_account_json(const struct explain *explain, struct json *json)
{
    json_object_begin(json, "parts");
    json_text_or_null(json, "source", usage_source_name(explain->account.source));
    usage_parts_json(&explain->sum, json);
    json_object_end(json);
}

static void live_json(const struct explain *explain, struct json *json)
{
    const struct explain_live *live = &explain->live;

    if (explain->no_live.code != FAULT_NONE) {
        json_null(json, "objects");
        return;
    }
    json_object_begin(json, "objects");
    JSON_MEMBERS(json, NUMBER("in_use", live->in_use), NUMBER("free_between", live->slack),
                 FLAG("estimated", live->share < 1));
    json_list_begin(json, "largest");
    for (size_t i = 0; i < EXPLAIN_CLASSES && live->largest[i].bytes; i++)
        JSON_ITEM(json, NUMBER("size", live->largest[i].size),
                  NUMBER("objects", live->largest[i].objects));
    json_list_end(json);
    json_object_end(json);
}

static void sites_json(const struct explain *explain, struct json *json)
{
    const struct sites *sites = &explain->sites;
    const struct site **list = sites_sorted(sites, SITES_BY_SIZE);
    char name[NAME_BYTES];

    json_list_begin(json, "sites");
    for (size_t i = 0; list && i < sites->count && i < EXPLAIN_SITES; i++) {
        const struct site *site = list[i];
        const char *call = site->calls;
        json_item_begin(json);
        json_signed(json, "bytes", site->now.bytes);
        json_list_begin(json, "calls");
        for (uint32_t k = 0; k < site->call_count && k < CALLS_SHOWN; k++) {
            json_item_text(json, short_name(call, name, sizeof name));
            call = k + 1 < site->call_count ? site_next_call(call) : call;
        }
        json_list_end(json);
        json_item_end(json);
    }
    json_list_end(json);
    free(list);
}

static void cause_json(const char *name, const struct fault *fault, const struct subject *subject,
                       struct json *json)
{
    char cause[CAUSE_BYTES];

    JSON_MEMBERS(json, TEXT_IF(fault->code != FAULT_NONE, name,
                               message_cause(subject, fault, cause, sizeof cause)));
}

static void jemalloc_json(const struct explain *explain, const struct subject *subject,
                          struct json *json)
{
    cause_json("no_jemalloc", &explain->no_heap, subject, json);
    if (explain->no_heap.code != FAULT_NONE)
        return;
    json_object_begin(json, "jemalloc");
    JSON_MEMBERS(json, TEXT_OR_NULL("version", explain->prof.build.text),
                 TEXT_OR_NULL("profiling", verdict_name(explain->facts.prof)));
    explained_account_json(explain, json);
    live_json(explain, json);
    cause_json("no_profile", &explain->no_profile, subject, json);
    sites_json(explain, json);
    json_object_end(json);
}

static void process_json(const struct explain *explain, struct json *json)
{
    JSON_MEMBERS(json, FLAG("halted", explain->facts.halted), NUMBER("age_ns", explain->age_ns),
                 NUMBER("threads", explain->threads));
    limit_json(explain, json);
    own_limit_json(explain, json);
    group_json(explain, json);
    if (explain->space != UINT64_MAX)
        JSON_MEMBERS(json, NUMBER("rlimit_as", explain->space),
                     NUMBER("address_space", explain->resident.size));
    growth_json(explain, json);
    JSON_MEMBERS(json, NUMBER("rss", explain->resident.rss), NUMBER("peak", explain->resident.peak),
                 NUMBER("swap", explain->resident.swap));
    parts_json(explain, json);
}

void explain_json(const struct explain *explain, const struct subject *subject, struct json *json)
{
    char verdict[EXPLAIN_VERDICT], answer[EXPLAIN_VERDICT], command[EXPLAIN_COMMAND];
    char reason[EXPLAIN_COMMAND];
    struct advice advice;

    explain_advice(explain, &advice);
    explain_verdict(explain, verdict);
    explain_growth(explain, answer);
    JSON_MEMBERS(json, TEXT_OR_NULL("headline", explain_headline_name(explain)),
                 TEXT("verdict", verdict), TEXT("answer", *answer ? answer : verdict));
    if (explain->core) {
        json_number(json, "threads", explain->threads);
        JSON_OBJECT(json, "mapped", NUMBER("anonymous", explain->mapped.anonymous),
                    NUMBER("files", explain->mapped.files),
                    NUMBER("dumped", explain->mapped.dumped));
    } else {
        process_json(explain, json);
    }
    json_list_begin(json, "allocators");
    if (explain->no_heap.code == FAULT_NONE)
        json_item_text(json, "jemalloc");
    for (unsigned kind = 0; kind < HEAP_KINDS; kind++)
        if (explain->heaps & 1u << kind)
            json_item_text(json, heap_kind_name((enum heap_kind)kind));
    json_list_end(json);
    jemalloc_json(explain, subject, json);
    if (!explain->core)
        cause_json("no_attach", &explain->refusal, subject, json);
    advice_json(&advice, json);
    JSON_OBJECT(json, "next", TEXT("step", explain_step_name(explain->step)),
                TEXT("command", explain_command(explain, subject, command)),
                TEXT("why", explain_reason(explain, reason)));
}
