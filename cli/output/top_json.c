#include "cli/output/top_json.h"
#include "cli/output/attachment_json.h"
#include "cli/output/usage.h"
#include "profile/views/growth.h"

#include <time.h>

static void json_gauges(struct json *json, const struct trends *trends)
{
    const struct gauge_values *now = trends_now(trends);

    json_object_begin(json, "gauges");
    for (enum gauge i = 0; i < GAUGE_COUNT; i++)
        json_number_or_null(json, usage_gauge_name(i, true), now && now->known[i],
                            now ? now->bytes[i] : 0);
    json_object_end(json);
    json_object_begin(json, "per_second");
    for (enum gauge i = 0; i < GAUGE_COUNT; i++)
        JSON_MEMBERS(json, ROUNDED_IF(trends_has_rate(trends, i), usage_gauge_name(i, true),
                                      trends_rate(trends, i)));
    json_object_end(json);
    json_number(json, "window_ns", trends_window(trends));
}

static void json_site(struct json *json, const struct sites *sites, const struct site *site)
{
    struct site_growth growth = sites_growth(sites, site);
    const char *call = site->calls;

    json_item_begin(json);
    JSON_MEMBERS(json, SIGNED("bytes", site->now.bytes), SIGNED("objects", site->objects));
    if (sites_window(sites))
        JSON_MEMBERS(json, SIGNED("growth", growth.bytes),
                     ROUNDED("growth_per_second", growth.per_second),
                     ROUNDED("growth_error", growth.error), ROUNDED("growth_low", growth.trend.low),
                     ROUNDED("growth_high", growth.trend.high),
                     TEXT("verdict", trend_verdict_name(growth.trend.verdict)),
                     SIGNED("growth_since_start", site_growth_in_all(site)));
    json_list_begin(json, "calls"); /* innermost first */
    for (uint32_t i = 0; i < site->call_count; i++, call = site_next_call(call))
        json_item_text(json, call);
    json_list_end(json);
    json_item_end(json);
}

static bool json_sites(struct json *json, const struct top_json *top)
{
    const struct sites *sites = top->page->model->sites;
    const struct site **list = sites_sorted(sites, top->page->order);

    if (!list)
        return false;
    JSON_OBJECT(json, "profile", SIGNED("bytes", sites->bytes.now),
                SIGNED("objects", sites->objects.now), NUMBER("period", sites->period),
                NUMBER("stacks", sites->stacks), NUMBER("sites", sites->count),
                NUMBER("window_ns", sites_window(sites)),
                TEXT("evidence", growth_evidence_name(sites->evidence)));
    json_list_begin(json, "sites");
    for (size_t i = 0; i < sites->count && (!top->rows || i < top->rows); i++)
        json_site(json, sites, list[i]);
    json_list_end(json);
    free(list);
    return true;
}

bool top_json_write(const struct top_json *top, FILE *out)
{
    const struct top_model *model = top->page->model;
    struct json json;
    bool good = true;

    json_begin(&json, out);
    JSON_MEMBERS(&json, NUMBER("pid", model->pid), TEXT("name", model->name),
                 TEXT_OR_NULL("version", model->version),
                 NUMBER("time_ns", clock_ns(CLOCK_REALTIME)), NUMBER("refresh", model->refreshes),
                 NUMBER("interval_ns", model->interval), TEXT_OR_NULL("missed", top->page->missed));
    if (!top->page->missed) {
        json_gauges(&json, &model->trends);
        json_text(&json, "profiling", top->profiling);
        if (model->sites)
            good = json_sites(&json, top);
        else
            json_text_or_null(&json, "next", top->page->next);
        way_json(top->attachment, !model->reads, &json);
        attachment_json(top->attachment, &json);
    }
    json_end(&json);
    return good;
}
