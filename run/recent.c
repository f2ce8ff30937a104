#include "run/recent.h"
#include "host/namespaces.h"
#include "jemalloc/variable.h"
#include "run/interrupt.h"
#include "run/recent_profile.h"

#include <string.h>
#include <time.h>

/* Bytes: more than RECENT_MAX records with two stacks of 128 calls each. */
#define LIST_LIMIT ((size_t)768 << 20)

void recent_init(struct recent *recent, const struct recent_request *request)
{
    memset(recent, 0, sizeof *recent);
    recent->request = *request;
    sink_init(&recent->text, LIST_LIMIT);
    capture_init(&recent->capture);
    last_profile_init(&recent->last);
}

void recent_free(struct recent *recent)
{
    sink_free(&recent->text);
    recent_list_free(&recent->list);
    capture_free(&recent->capture);
    last_profile_free(&recent->last);
}

/* ---- what runs in a hold ---- */

static fault_code restore_list(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct recent *recent = ctx;
    fault_code rc = FAULT_NONE;

    if (recent->list_switch.owed)
        rc = recent_restore(&attachment->injection, &attachment->instance, &recent->list_switch,
                            fault);
    recent->sampling.more_owed = recent->list_switch.owed;
    return rc;
}

/* The list first: a build without it is refused before anything is changed. */
static fault_code begin_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct recent *recent = ctx;
    struct injection *injection = &attachment->injection;
    struct build build;
    fault_code rc = build_read(injection, &attachment->instance, &build, fault);

    if (rc == FAULT_NONE)
        rc = build_can_profile(&build, fault);
    if (rc == FAULT_NONE)
        rc = hooks_check(injection, &attachment->instance, HOOKS_AUTOMATIC, &attachment->hooks,
                         NULL, fault);
    if (rc == FAULT_NONE)
        rc = recent_begin(injection, &attachment->instance, &build, recent->request.count,
                          &recent->list_switch, fault);
    recent->sampling.more_owed = recent->list_switch.owed;
    return rc == FAULT_NONE ? sampling_begin(attachment, &recent->sampling, fault) : rc;
}

static uint64_t clock_of_list(const struct recent_switch *list)
{
    struct timespec now;

    clock_gettime(list->realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * prof.active first: then the list does not change while it is printed, except for
 * releases, and a death of the tool in between leaves only the list, which costs no time.
 */
static fault_code end_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct recent *recent = ctx;
    fault_code rc = sampling_end(attachment, &recent->sampling, fault);

    recent->text.len = 0; /* of an attempt before */
    if (rc == FAULT_NONE)
        rc = hooks_check(&attachment->injection, &attachment->instance, HOOKS_AUTOMATIC,
                         &attachment->hooks, NULL, fault);
    if (rc == FAULT_NONE)
        rc = recent_take(&attachment->injection, &attachment->instance, &recent->list_switch,
                         recent->message_at, &recent->text, fault);
    recent->now_ns = clock_of_list(&recent->list_switch);
    recent->sampling.more_owed = recent->list_switch.owed;
    return rc;
}

/* Only prints the list: nothing is switched, and it goes on. */
static fault_code list_held(struct attachment *attachment, void *ctx, struct fault *fault)
{
    struct recent *recent = ctx;
    struct recent_switch list = recent->list_switch;
    fault_code rc = hooks_check(&attachment->injection, &attachment->instance, HOOKS_AUTOMATIC,
                                &attachment->hooks, NULL, fault);

    list.owed = false;
    if (rc == FAULT_NONE)
        rc = recent_take(&attachment->injection, &attachment->instance, &list, recent->message_at,
                         recent->into, fault);
    recent->next_ns = clock_of_list(&list);
    return rc;
}

static fault_code take_meanwhile(struct attachment *attachment, void *ctx, struct sink *text,
                                 struct fault *fault)
{
    struct recent *recent = ctx;

    recent->into = text;
    return attachment_hold(attachment, list_held, recent, fault);
}

static void note_list_kept(void *ctx, const struct last_profile *last)
{
    struct recent *recent = ctx;

    (void)last;
    recent->kept_ns = recent->next_ns;
}

/* ---- after it ---- */

/* In another time namespace the last event is the nearest that is known of its clock. */
static void set_list_clock(struct recent *recent)
{
    uint64_t last = 0;

    for (size_t i = 0; i < recent->list.count; i++) {
        const struct recent_record *record = &recent->list.records[i];
        uint64_t time = record->has_release ? record->release.time_ns : record->allocation.time_ns;
        last = time > last ? time : last;
    }
    if (!recent->clock_shared)
        recent->now_ns = last;
}

static fault_code make_capture(struct recent *recent, size_t list_len, struct fault *fault)
{
    fault_code rc =
        recent_list_parse(&recent->list, (const char *)recent->text.bytes, list_len, fault);

    return rc == FAULT_NONE ? recent_profile_make(&recent->list, &recent->capture.text, fault) : rc;
}

static fault_code take_list(struct recent *recent, struct attachment *attachment,
                            struct fault *fault)
{
    struct capture *capture = &recent->capture;
    struct timespec now;
    fault_code rc = make_capture(recent, recent->text.len, fault);

    sink_free(&recent->text);
    if (rc == FAULT_NONE)
        rc = dump_complete(&attachment->target, &capture->text, fault);
    clock_gettime(CLOCK_REALTIME, &now);
    capture->time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    capture->bytes = capture->text.len;
    capture->taken = recent->taken = rc == FAULT_NONE;
    set_list_clock(recent);
    return rc;
}

/* The mappings are the last part of a text that is kept: they contain no title. */
static size_t list_len_of(const struct sink *text)
{
    static const char title[] = "\nMAPPED_LIBRARIES:\n";
    size_t len = text->len;

    while (len > 0 && (text->len - len < sizeof title - 1 ||
                       memcmp(text->bytes + len, title, sizeof title - 1) != 0))
        len--;
    return len;
}

static fault_code use_kept(struct recent *recent, fault_code end, struct fault *fault)
{
    struct capture kept, *capture = &recent->capture;
    const struct fault ended = *fault;
    size_t len, maps;
    unsigned char *space;
    fault_code rc;

    capture_init(&kept);
    recent->sampling.cut_short_ns = last_profile_use(&recent->last, &kept);
    if (!recent->sampling.cut_short_ns)
        return end;
    sink_free(&recent->text);
    recent->text = kept.text;
    len = list_len_of(&kept.text);
    maps = kept.text.len - len;
    rc = make_capture(recent, len, fault);
    space = rc == FAULT_NONE ? sink_reserve(&capture->text, maps) : NULL;
    if (space)
        memcpy(space, kept.text.bytes + len, maps);
    capture->text.len += space ? maps : 0;
    capture->time_ns = kept.time_ns;
    capture->bytes = capture->text.len;
    capture->taken = recent->taken = space != NULL;
    sink_free(&recent->text);
    recent->now_ns = recent->kept_ns;
    set_list_clock(recent);
    recent->sampling.ended = recent->last.at_ns;
    recent->ended = ended;
    return rc == FAULT_NONE && !space ? sink_refuse(&capture->text, "use the list", fault) : rc;
}

static fault_code end_recent(struct recent *recent, struct attachment *attachment,
                             struct fault *fault)
{
    struct sampling *sampling = &recent->sampling;
    fault_code rc;

    last_profile_make_room(&recent->last, attachment);
    rc = sampling_hold(attachment, sampling, NULL, end_held, recent, fault);

    if (rc == FAULT_NONE) {
        interrupt_patience(recent->request.impatient ? 0 : 2, NULL);
        rc = take_list(recent, attachment, fault);
    }
    return rc;
}

static fault_code run_recent(struct recent *recent, struct attachment *attachment,
                             struct fault *fault)
{
    struct sampling *sampling = &recent->sampling;
    const struct last_profile_request keep = {.step_ns = LAST_STEP_NS,
                                              .calls = true,
                                              .names = true,
                                              .take = take_meanwhile,
                                              .kept = note_list_kept,
                                              .ctx = recent};
    const struct target *target = &attachment->target;
    const uint64_t duration = recent->request.duration_ns;
    fault_code rc;

    recent->message_at =
        variable_find(&attachment->instance, "malloc_message", &attachment->modules,
                      &attachment->target, &attachment->memory);
    recent->text.limit = sink_affordable(&attachment->proc, LIST_LIMIT);
    recent->capture.text.limit = recent->text.limit;
    sampling->more = restore_list;
    sampling->more_ctx = recent;
    rc = attachment_hold(attachment, begin_held, recent, fault);
    rc = sampling_begun(attachment, sampling, rc, fault);
    if (rc != FAULT_NONE)
        return rc;
    recent->clock_shared = recent->list_switch.realtime ||
                           namespaces_share_clock(&attachment->proc, target_via(target));
    sampling->reported_until = sampling->began + duration;
    last_profile_plan(&recent->last, attachment, &keep, last_profile_cost(attachment));
    if (last_profile_wait(&recent->last, attachment, sampling, RUN_RECORDING,
                          sampling->began + duration, NULL) == PAUSE_ENDED)
        return last_profile_lost(&recent->last, attachment, fault);
    return end_recent(recent, attachment, fault);
}

fault_code recent_run(struct recent *recent, struct attachment *attachment, struct fault *fault)
{
    fault_code rc = run_recent(recent, attachment, fault);

    return sampling_is_gone(attachment, &recent->sampling, rc) ? use_kept(recent, rc, fault) : rc;
}

/* ---- times ---- */

uint64_t recent_age(const struct recent *recent, const struct recent_record *record)
{
    uint64_t then = record->allocation.time_ns;

    return recent->now_ns > then ? recent->now_ns - then : 0;
}

uint64_t recent_lifetime(const struct recent_record *record)
{
    return recent_lacks_lifetime(record) ? 0 : record->release.time_ns - record->allocation.time_ns;
}
