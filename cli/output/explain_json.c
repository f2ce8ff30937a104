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
    if (!explain->limited) {
        json_null(json, "limit");
        return;
    }
    json_object_begin(json, "limit");
    json_text(json, "of", explain->machine ? "machine" : "cgroup");
    json_number(json, "bytes", explain->use.limit);
    json_number(json, "used", explain->use.used);
    json_number(json, "left", explain_space_left(explain));
    json_bool(json, "counts_rss", explain->counts_rss);
    if (explain->events.known)
        json_number(json, "oom_kills", explain->events.oom_kills);
    if (explain->has_pressure)
        json_rounded(json, "stalled_us_per_second", explain->stalled * 1e6);
    json_object_end(json);
}

static void own_limit_json(const struct explain *explain, struct json *json)
{
    const struct own_limit *limit = &explain->own_limit;
    uint64_t left;

    if (limit->of == OWN_LIMIT_NONE) {
        json_null(json, "own_limit");
        return;
    }
    const bool reached = explain_own_time_left(explain, &left);
    json_object_begin(json, "own_limit");
    json_text(json, "option", limit->option);
    json_text_or_null(json, "variable", limit->variable);
    json_number_or_null(json, "bytes", limit->bytes > 0, limit->bytes);
    json_bool(json, "default", limit->is_default);
    json_number_or_null(json, "reached_in_ns", reached, left);
    json_object_end(json);
}

/* What else its cgroup has. */
static void group_json(const struct explain *explain, struct json *json)
{
    static const char *const names[GROUP_KINDS] = {
        [GROUP_PROCESSES] = "processes", [GROUP_SHARED] = "shared", [GROUP_FILES] = "files",
        [GROUP_SOCKETS] = "sockets",     [GROUP_HUGE] = "huge",     [GROUP_SLAB] = "slab",
        [GROUP_TABLES] = "page_tables",  [GROUP_KERNEL] = "kernel",
    };
    const struct group_account *group = &explain->group;

    if (!group->known) {
        json_null(json, "others");
        return;
    }
    json_object_begin(json, "others");
    for (enum group_kind kind = 0; kind < GROUP_KINDS; kind++)
        json_number(json, names[kind], group->kinds[kind]);
    json_list_begin(json, "largest");
    for (size_t i = 0; i < GROUP_LARGEST && group->largest[i].pid; i++) {
        json_item_begin(json);
        json_number(json, "pid", (uint64_t)group->largest[i].pid);
        json_text(json, "command", group->largest[i].comm);
        json_number(json, "bytes", group->largest[i].own);
        json_item_end(json);
    }
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

    json_object_begin(json, "growth");
    json_text(json, "state", states[explain->rise.state]);
    json_signed(json, "bytes", explain->rise.change);
    json_signed(json, "rss_bytes", explain->rss_rise.change);
    json_bool(json, "objects_grow", explain->objects_grow);
    json_number(json, "ns", explain->rise.ns);
    if (explain_time_left(explain, &left))
        json_number(json, "limit_in_ns", left);
    else
        json_null(json, "limit_in_ns");
    json_object_end(json);
}

static void parts_json(const struct explain *explain, struct json *json)
{
    const struct resident *resident = &explain->resident;
    const struct resident_parts *parts = &explain->parts;

    json_object_begin(json, "parts");
    if (explain->parts_state == PARTS_READ) {
        json_number(json, "anonymous", parts->anonymous);
        json_number(json, "brk", parts->heap);
        json_number(json, "stacks", parts->stacks);
        json_number(json, "variables", parts->written);
        json_number(json, "files", parts->files);
        json_number(json, "shared", parts->shared);
        json_number(json, "devices", parts->devices);
        json_number(json, "huge", parts->huge);
        json_number(json, "lazy_free", parts->lazy_free);
    } else {
        json_number(json, "anonymous", resident->anonymous);
        json_number(json, "files", resident->files);
        json_number(json, "shared", resident->shared);
    }
    json_object_end(json);
}

/* The parts by the names that stats has for them; what is not known is null. */
static void explained_account_json(const struct explain *explain, struct json *json)
{
    static const char *const sources[] = {
        [ACCOUNT_RECORDS] = "records", [ACCOUNT_CALL] = "call", [ACCOUNT_NONE] = NULL};

    json_object_begin(json, "parts");
    json_text_or_null(json, "source", sources[explain->account.source]);
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
    json_number(json, "in_use", live->in_use);
    json_number(json, "free_between", live->slack);
    json_bool(json, "estimated", live->share < 1);
    json_list_begin(json, "largest");
    for (size_t i = 0; i < EXPLAIN_CLASSES && live->largest[i].bytes; i++) {
        json_item_begin(json);
        json_number(json, "size", live->largest[i].size);
        json_number(json, "objects", live->largest[i].objects);
        json_item_end(json);
    }
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

    if (fault->code == FAULT_NONE)
        json_null(json, name);
    else
        json_text(json, name, message_cause(subject, fault, cause, sizeof cause));
}

static void jemalloc_json(const struct explain *explain, const struct subject *subject,
                          struct json *json)
{
    cause_json("no_jemalloc", &explain->no_heap, subject, json);
    if (explain->no_heap.code != FAULT_NONE)
        return;
    json_object_begin(json, "jemalloc");
    json_text_or_null(json, "version", explain->prof.build.text);
    json_text_or_null(json, "profiling", verdict_name(explain->facts.prof));
    explained_account_json(explain, json);
    live_json(explain, json);
    cause_json("no_profile", &explain->no_profile, subject, json);
    sites_json(explain, json);
    json_object_end(json);
}

static void process_json(const struct explain *explain, struct json *json)
{
    json_bool(json, "halted", explain->facts.halted);
    json_number(json, "age_ns", explain->age_ns);
    json_number(json, "threads", explain->threads);
    limit_json(explain, json);
    own_limit_json(explain, json);
    group_json(explain, json);
    if (explain->space != UINT64_MAX) {
        json_number(json, "rlimit_as", explain->space);
        json_number(json, "address_space", explain->resident.size);
    }
    growth_json(explain, json);
    json_number(json, "rss", explain->resident.rss);
    json_number(json, "peak", explain->resident.peak);
    json_number(json, "swap", explain->resident.swap);
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
    json_text_or_null(json, "headline", explain_headline_name(explain));
    json_text(json, "verdict", verdict);
    json_text(json, "answer", *answer ? answer : verdict);
    if (explain->core) {
        json_number(json, "threads", explain->threads);
        json_object_begin(json, "mapped");
        json_number(json, "anonymous", explain->mapped.anonymous);
        json_number(json, "files", explain->mapped.files);
        json_number(json, "dumped", explain->mapped.dumped);
        json_object_end(json);
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
    json_object_begin(json, "next");
    json_text(json, "step", explain_step_name(explain->step));
    json_text(json, "command", explain_command(explain, subject, command));
    json_text(json, "why", explain_reason(explain, reason));
    json_object_end(json);
}
