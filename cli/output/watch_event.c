#include "cli/output/watch_event.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/message.h"
#include "cli/output/attachment_json.h"
#include "cli/output/stdout.h"
#include "cli/rule_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { LINE_MAX_BYTES = 1024 };

static const char *const kinds[] = {
    [EVENT_WATCHING] = "watching", [EVENT_PROFILE] = "profile", [EVENT_FAILED] = "failed",
    [EVENT_ENDED] = "ended",       [EVENT_WAITING] = "waiting", [EVENT_STOPPED] = "stopped",
    [EVENT_RESTORED] = "restored", [EVENT_ALARM] = "alarm",     [EVENT_COMMAND] = "command",
};

/* ---- JSON ---- */

static void json_time(struct json *json)
{
    char text[40], whole[64];
    struct timespec now;
    struct tm tm;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(whole, sizeof whole, "%s.%03ldZ", text, now.tv_nsec / 1000000);
    json_text(json, "time", whole);
}

static void json_rules(struct json *json, const struct watch_event *event)
{
    json_list_begin(json, "rules");
    for (size_t i = 0; i < event->rules->count; i++) {
        const struct rule_state *state = &event->rules->states[i];
        if (!(event->fired >> i & 1))
            continue;
        const bool share = rule_is_pressure(&event->rules->list[i]);
        JSON_ITEM(json, TEXT("rule", event->rules->list[i].text),
                  WHEN(share, NUMBER("stalled_permille", rule_bytes(state->value * 1000))),
                  WHEN(!share, NUMBER("value", rule_bytes(state->value))),
                  WHEN(!share, NUMBER("threshold", rule_bytes(state->threshold))));
    }
    json_list_end(json);
}

static void json_profile(struct json *json, const struct watch_event *event)
{
    JSON_MEMBERS(json, TEXT("path", event->path), NUMBER("bytes", event->bytes),
                 FLAG("empty", event->empty), CUT_SHORT(event->age_ns),
                 NUMBER("removed", event->removed), TEXT("way", event->read ? "memory" : "call"));
    if (event->read)
        JSON_MEMBERS(json, NUMBER("read_ns", event->read->ns),
                     NUMBER("unsettled", event->read->unsettled));
    else
        JSON_MEMBERS(json, NUMBER("thread", event->held->tid),
                     NUMBER("held_ns", event->held->held_ns), NUMBER("calls", event->held->calls));
}

static void print_event_json(const struct watch_event *event, const char *cause)
{
    const struct watch_start *start = event->start;
    const bool ended = event->kind == EVENT_COMMAND && !event->command.err;
    const int status = event->command.status;
    struct json json;

    json_begin(&json, stdout);
    json_time(&json);
    JSON_MEMBERS(&json, TEXT("event", kinds[event->kind]), TEXT_OR_NULL("name", event->name),
                 WHEN(event->pid, NUMBER("pid", event->pid)));
    if (event->measures)
        JSON_MEMBERS(&json, NUMBER("rss", event->measures->rss),
                     NUMBER("limit", event->measures->limit));
    if (event->rules)
        json_rules(&json, event);
    if (start)
        JSON_MEMBERS(&json, FACT("prof.active", start->active),
                     FLAG("switched_on", start->switched), NUMBER("max", start->most),
                     TEXT_OR_NULL("directory", start->directory), NUMBER("own_rss", start->rss),
                     NUMBER("own_locked", start->locked));
    if (event->kind == EVENT_PROFILE)
        json_profile(&json, event);
    JSON_MEMBERS(&json, WHEN(event->kind == EVENT_RESTORED, NUMBER("count", event->restored)),
                 WHEN(cause, TEXT("cause", cause)),
                 WHEN(event->command.err, TEXT("cause", strerror(event->command.err))),
                 WHEN(ended && WIFEXITED(status), NUMBER("exit", WEXITSTATUS(status))),
                 WHEN(ended && WIFSIGNALED(status), NUMBER("signal", WTERMSIG(status))),
                 WHEN(event->retry_ns, NUMBER("retry_ns", event->retry_ns)),
                 WHEN(event->kind == EVENT_ENDED || event->kind == EVENT_STOPPED,
                      NUMBER(event->alarms ? "alarms" : "profiles", event->made)));
    json_end(&json);
}

/* ---- words ---- */

#define append(line, ...) text_append(line, LINE_MAX_BYTES, __VA_ARGS__)

static void append_fired(char *line, const struct watch_event *event)
{
    char text[128];
    bool any = false;

    for (size_t i = 0; i < event->rules->count; i++)
        if (event->fired >> i & 1) {
            append(line, "%s%s", any ? ", " : "",
                   rule_describe(event->rules, i, text, sizeof text));
            any = true;
        }
}

static void append_start(char *line, const struct watch_event *event)
{
    const struct watch_start *start = event->start;
    char rss[UNITS_TEXT], limit[UNITS_TEXT], locked[UNITS_TEXT], clean[256];

    append(line, "rss %s, limit %s; ", units_bytes((double)event->measures->rss, rss),
           units_bytes((double)event->measures->limit, limit));
    if (event->alarms)
        append(line, "no profile is written");
    else if (start->switched)
        append(line, "profiling switched on");
    else if (start->active == FACT_UNKNOWN)
        append(line, "whether profiling is active is not known without a call");
    else
        append(line, "profiling %s",
               start->active == FACT_YES ? "active" : "NOT ACTIVE (use --on to switch it on)");
    if (event->alarms)
        append(line, "; at most %u alarm%s; ", start->most, start->most == 1 ? "" : "s");
    else
        append(line, "; at most %u profile%s written to %s; ", start->most,
               start->most == 1 ? "" : "s", message_clean(start->directory, clean, sizeof clean));
    if (start->lock_err)
        append(line, "jeattach's memory is not locked: %s", strerror(start->lock_err));
    else
        append(line, "%s of jeattach's memory locked", units_bytes((double)start->locked, locked));
}

static void append_profile(char *line, const struct watch_event *event)
{
    char bytes[UNITS_TEXT], age[UNITS_TEXT], clean[512];

    if (event->age_ns)
        append(line, "cut short: its last profile, read %s before the end was seen",
               units_duration(event->age_ns, age));
    append_fired(line, event);
    append(line, ": %s, %s", message_clean(event->path, clean, sizeof clean),
           units_bytes((double)event->bytes, bytes));
    if (event->read)
        append(line, ", read from memory in %s", units_duration(event->read->ns, age));
    else
        append(line, ", thread %d stopped for %s", (int)event->held->tid,
               units_duration(event->held->held_ns, age));
    if (event->read && event->read->unsettled)
        append(line, ", %zu stack%s left out that changed during the read", event->read->unsettled,
               event->read->unsettled == 1 ? "" : "s");
    if (event->empty)
        append(line, "; IT CONTAINS NO SAMPLES: was profiling active (--on, jeattach on)?");
    if (event->removed)
        append(line, "; %u older one%s removed", event->removed, event->removed == 1 ? "" : "s");
}

static void append_failed(char *line, const struct watch_event *event, const char *cause)
{
    char clean[512], pause[UNITS_TEXT];

    if (event->rules)
        append_fired(line, event);
    else
        append(line, "cannot be watched");
    append(line, ": %s", message_clean(cause, clean, sizeof clean));
    if (event->retry_ns)
        append(line, "; next try in %s", units_duration(event->retry_ns, pause));
}

static void append_restored(char *line, const struct watch_event *event, const char *cause)
{
    char clean[512];

    append(line, "prof.active was switched off by another program");
    if (event->restored)
        append(line, ", and on again");
    if (event->restored > 1)
        append(line, " (%u times)", event->restored);
    if (cause)
        append(line, "; it cannot be switched on%s yet: %s", event->restored ? " again" : "",
               message_clean(cause, clean, sizeof clean));
}

static void append_command(char *line, const struct command_end *end)
{
    append(line, "the command of --exec ");
    if (end->err == EBUSY)
        append(line, "is still running, and is not started again");
    else if (end->err)
        append(line, "cannot be started: %s", strerror(end->err));
    else if (WIFEXITED(end->status))
        append(line, "has ended with exit code %d", WEXITSTATUS(end->status));
    else
        append(line, "was ended by signal %d", WTERMSIG(end->status));
}

static void print_words(const struct watch_event *event, const char *cause)
{
    const char *made = event->alarms ? "alarms" : "profiles written";
    char line[LINE_MAX_BYTES] = "";
    char clean[PROCESS_TEXT];

    if (event->kind == EVENT_WAITING)
        append(line, "waiting for %s", event->name);
    else
        append(line, "%s ", message_process(event->name, event->pid, clean));
    if (event->kind == EVENT_WATCHING)
        append_start(line, event);
    else if (event->kind == EVENT_PROFILE)
        append_profile(line, event);
    else if (event->kind == EVENT_ALARM)
        append_fired(line, event);
    else if (event->kind == EVENT_COMMAND)
        append_command(line, &event->command);
    else if (event->kind == EVENT_FAILED)
        append_failed(line, event, cause);
    else if (event->kind == EVENT_RESTORED)
        append_restored(line, event, cause);
    else if (event->kind == EVENT_ENDED)
        append(line, "has ended; %s: %u", made, event->made);
    else if (event->kind == EVENT_STOPPED)
        append(line, "no longer watched: %s; %s: %u", cause, made, event->made);
    message("%s", line);
}

/* Flushes, so that no event stays in a buffer while the watch waits. */
fault_code watch_event_print(const struct options *options, const struct watch_event *event,
                             const char *cause, struct fault *fault)
{
    if (options->json)
        print_event_json(event, cause);
    else if (event->kind == EVENT_PROFILE)
        printf("%s\n", event->path);
    if (!options->quiet || event->kind == EVENT_FAILED || event->kind == EVENT_COMMAND)
        print_words(event, cause);
    return stdout_check(fault);
}
