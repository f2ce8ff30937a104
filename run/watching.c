#include "run/watching.h"
#include "base/text.h"
#include "host/container.h"
#include "run/faults.h"
#include "run/filename.h"
#include "run/interrupt.h"
#include "run/keep.h"
#include "run/output.h"
#include "run/reserve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS ((uint64_t)1000000000)
#define MINUTE_NS (60 * SECOND_NS)

enum { PROFILE_RESERVE = 1 << 20, PROFILE_KEPT = 4 << 20, KEEP_DEFAULT = 10 };

enum { READ_PERCENT = 1 }; /* of the time, as a watch may take weeks */

/* ---- events ---- */

struct watch_event watching_event(const struct watching *watch, enum watch_event_kind kind)
{
    return (struct watch_event){.kind = kind,
                                .name = watch->attachment.target.stat.comm,
                                .pid = (int)watch->attachment.target.pid,
                                .made = watch->made};
}

enum course watching_report(struct watching *watch, const struct watch_event *event,
                            enum course next)
{
    const struct watch_request *request = &watch->request;
    struct fault fault;

    if (request->report(request->ctx, event, &fault) == FAULT_NONE)
        return next;
    watch->fault = fault;
    return COURSE_FAILED;
}

enum course watching_report_failed(struct watching *watch, unsigned fired, uint64_t retry_ns)
{
    struct watch_event event = watching_event(watch, EVENT_FAILED);

    event.rules = fired ? &watch->rules : NULL;
    event.fired = fired;
    event.measures = fired ? &watch->measures : NULL;
    event.retry_ns = retry_ns;
    event.fault = &watch->fault;
    return watching_report(watch, &event, COURSE_ON);
}

/* ---- after a fault ---- */

/* How the watch continues after a fault. */
static enum course course_of(struct watching *watch)
{
    fault_code code = watch->fault.code;

    if (code == FAULT_EXECED)
        return COURSE_EXECED;
    if (code == FAULT_INTERRUPTED)
        return COURSE_INTERRUPTED;
    if (fault_is_output(code))
        return COURSE_FAILED;
    return sampling_is_gone(&watch->attachment, &watch->sampling, code) ? COURSE_ENDED : COURSE_ON;
}

/* ---- prof.active, which another program may switch off at any time ---- */

/* At once, but then at most once a minute: two programs may contend for it. */
static enum course report_restored(struct watching *watch, const struct fault *fault)
{
    struct watch_event event = watching_event(watch, EVENT_RESTORED);
    const uint64_t now = clock_now();

    event.restored = watch->sampling.kept - watch->kept_reported;
    event.fault = fault;
    if ((!event.restored && !fault) || now < watch->kept_tell_next)
        return COURSE_ON;
    watch->kept_reported = watch->sampling.kept;
    watch->kept_tell_next = now + MINUTE_NS;
    return watching_report(watch, &event, COURSE_ON);
}

/* A look is a read of one byte. Where only a call shows it, take_profile looks. */
static enum course keep_active(struct watching *watch)
{
    struct attachment *attachment = &watch->attachment;
    const uint64_t now = clock_now();
    enum course course;
    fault_code rc;

    if (!watch->request.on || !watch->sampling.seen || now < watch->kept_next ||
        sampling_is_on(attachment))
        return report_restored(watch, NULL);
    watch->kept_next = now + SECOND_NS;
    rc = attachment_renew(attachment, interrupt_flag(), &watch->fault);
    if (rc == FAULT_NONE)
        rc = sampling_keep(attachment, &watch->sampling, &watch->fault);
    attachment_rest(attachment);
    course = rc == FAULT_NONE ? COURSE_ON : course_of(watch);
    return course == COURSE_ON ? report_restored(watch, rc == FAULT_NONE ? NULL : &watch->fault)
                               : course;
}

/* ---- one profile ---- */

/* Others may have a process of that name: its container and its user are added (run/keep.h). */
static void add_whose(struct filename_facts *facts, const struct target *target)
{
    struct container container;
    char within[2 + POD_MAX] = "", user[16] = "";

    if (container_read(target->proc, target->pid, &container)) {
        const char *id = container.pod[0] ? container.pod : container.id;
        int most = strlen(id) == CONTAINER_ID_LEN ? 12 : POD_MAX;
        snprintf(within, sizeof within, "@%.*s", most, id);
    }
    if (target->status.uid != geteuid())
        snprintf(user, sizeof user, "@uid%u", (unsigned)target->status.uid);
    snprintf(facts->name, sizeof facts->name, "%.15s%s%s", target->stat.comm, within, user);
}

static bool name_profile(const struct watching *watch, const struct capture *capture, char *out,
                         size_t size)
{
    const struct target *target = &watch->attachment.target;
    const bool last = capture == &watch->last.kept;
    struct filename_facts facts;
    char directory[FILENAME_MAX_BYTES];
    int n = snprintf(directory, sizeof directory, "%s/", watch->request.directory);

    filename_facts(&facts, target);
    add_whose(&facts, target);
    facts.rss_bytes = watch->measures.rss;
    if (last)
        filename_facts_then(&facts, capture->time_ns, watch->last.rss);
    return n > 0 && (size_t)n < sizeof directory &&
           filename_expand(directory, last ? KEEP_CUT_SHORT KEEP_EXTENSION : KEEP_EXTENSION, &facts,
                           out, size);
}

static fault_code write_profile(struct watching *watch, const struct capture *capture,
                                struct output *output)
{
    char path[FILENAME_MAX_BYTES];
    fault_code rc;

    if (!name_profile(watch, capture, path, sizeof path))
        return fault_set(&watch->fault, FAULT_OUTPUT, ENAMETOOLONG, "write output", "%s",
                         watch->request.directory);
    rc = output_open_new(output, path, true, &watch->fault);
    if (rc == FAULT_NONE)
        output_set_mode(output, watch->request.mode);
    if (rc == FAULT_NONE)
        rc = output_finish(output, capture->text.bytes, capture->text.len, &watch->fault);
    return rc;
}

static unsigned remove_older(const struct watching *watch, const char *path)
{
    unsigned keep = watch->request.keep ? watch->request.keep : KEEP_DEFAULT;

    return keep_newest(watch->request.directory, text_base_name(path), keep);
}

static bool lacks_samples(const struct sink *text)
{
    static const char sample[] = "\n@ ";

    return !memmem(text->bytes, text->len, sample, sizeof sample - 1);
}

static enum course report_profile(struct watching *watch, const struct capture *capture,
                                  unsigned fired, const char *path)
{
    const bool last = capture == &watch->last.kept;
    struct watch_event event = watching_event(watch, EVENT_PROFILE);

    event.rules = &watch->rules;
    event.fired = fired;
    event.measures = &watch->measures;
    event.path = path;
    event.bytes = capture->text.len;
    event.empty = lacks_samples(&capture->text);
    event.held = &watch->attachment.caller.injection.summary;
    event.read = access_reads(&watch->attachment) ? &watch->attachment.read.last : NULL;
    if (last) {
        event.read = &watch->last.reading;
        event.age_ns = clock_now() - watch->last.at_ns;
    }
    event.removed = remove_older(watch, path);
    return watching_report(watch, &event, COURSE_ON);
}

static fault_code take_profile(struct watching *watch)
{
    fault_code rc = attachment_renew(&watch->attachment, interrupt_flag(), &watch->fault);

    last_profile_make_room(&watch->last, &watch->attachment);
    watch->capture.text.len = 0;
    if (rc == FAULT_NONE && watch->request.on)
        rc = sampling_keep(&watch->attachment, &watch->sampling, &watch->fault);
    if (rc == FAULT_NONE)
        rc = access_profile(&watch->attachment, &watch->capture, NULL, &watch->fault);
    attachment_rest(&watch->attachment);
    return rc;
}

/* After a large profile the memory shrinks to the reserve again. */
bool watching_reserve(struct watching *watch)
{
    struct capture *capture = &watch->capture;
    unsigned char *room;

    if (capture->text.mapped > 0 && capture->text.mapped <= PROFILE_KEPT)
        return true;
    capture_free(capture);
    capture_init(capture);
    room = sink_reserve(&capture->text, PROFILE_RESERVE);
    if (room)
        memset(room, 0, PROFILE_RESERVE);
    return room != NULL;
}

static enum course make_profile(struct watching *watch, unsigned fired)
{
    struct output output = {.fd = -1};
    enum course course = COURSE_ON;
    fault_code rc = take_profile(watch);

    if (rc == FAULT_NONE)
        rc = write_profile(watch, &watch->capture, &output);
    if (rc == FAULT_NONE) {
        watch->made++;
        rules_fired(&watch->rules, fired, clock_now());
        course = report_profile(watch, &watch->capture, fired, output.path);
        last_profile_restart(&watch->last);
    } else {
        course = course_of(watch);
        if (course == COURSE_ON)
            course = watching_report_failed(watch, fired,
                                            rules_failed(&watch->rules, fired, clock_now()));
    }
    output_close(&output);
    (void)watching_reserve(watch);
    return course;
}

/* ---- the last profile ---- */

static enum course keep_profile(struct watching *watch)
{
    if (clock_now() < watch->last.next_ns)
        return COURSE_ON;
    last_profile_take(&watch->last, &watch->attachment, UINT64_MAX);
    if (watch->last.ended.code == FAULT_NONE)
        return COURSE_ON;
    watch->fault = watch->last.ended;
    return course_of(watch);
}

/* One without a sample would only take the place of an older one that has some. */
static enum course write_last(struct watching *watch, enum course end)
{
    const struct capture *capture = &watch->last.kept;
    struct output output = {.fd = -1};
    enum course course = end;

    if (!capture->taken || lacks_samples(&capture->text))
        return end;
    if (write_profile(watch, capture, &output) != FAULT_NONE) {
        course = COURSE_FAILED;
    } else {
        watch->made++;
        course =
            report_profile(watch, capture, 0, output.path) == COURSE_FAILED ? COURSE_FAILED : end;
    }
    output_close(&output);
    watch->last.kept.taken = false;
    return course;
}

/* ---- one process ---- */

static enum course wait_for_change(struct watching *watch)
{
    switch (meter_wait(&watch->meter, rules_pause(&watch->rules), interrupt_flag())) {
    case METER_ENDED:
        return COURSE_ENDED;
    case METER_INTERRUPTED:
        return COURSE_INTERRUPTED;
    default:
        return COURSE_ON;
    }
}

/* A process without memory has ended, or is in execve(2). */
static enum course measure_once(struct watching *watch)
{
    enum course course = keep_active(watch);
    struct fault fault;
    unsigned fired;

    if (course != COURSE_ON)
        return course;
    if (!meter_read(&watch->meter, &watch->measures))
        return target_check(&watch->attachment.target, &fault) == FAULT_NONE ? COURSE_ON
                                                                             : COURSE_ENDED;
    fired = rules_look(&watch->rules, &watch->measures);
    return fired ? make_profile(watch, fired) : keep_profile(watch);
}

static enum course report_watching(struct watching *watch)
{
    struct watch_event event = watching_event(watch, EVENT_WATCHING);

    watch->start.most = watch->request.most;
    watch->start.directory = watch->request.directory;
    watch->start.lock_err = reserve_lock();
    reserve_usage(&watch->start.rss, &watch->start.locked);
    (void)meter_read(&watch->meter, &watch->measures);
    event.start = &watch->start;
    event.measures = &watch->measures;
    return watching_report(watch, &event, COURSE_ON);
}

enum course watching_run(struct watching *watch)
{
    enum course course = report_watching(watch);

    while (course == COURSE_ON) {
        course = measure_once(watch);
        if (course == COURSE_ON && watch->made >= watch->request.most)
            course = COURSE_FULL;
        if (course == COURSE_ON)
            course = wait_for_change(watch);
    }
    return course == COURSE_ENDED || course == COURSE_EXECED ? write_last(watch, course) : course;
}

/* Detects now what would prevent a profile later. */
static fault_code check_first(struct watching *watch)
{
    struct attachment *attachment = &watch->attachment;
    struct prof_state *state = &watch->sampling.former;
    const bool reads = access_reads(attachment);
    fault_code rc = FAULT_NONE;

    if (watch->request.on) {
        rc = sampling_begin(attachment, &watch->sampling, &watch->fault);
    } else {
        attachment_read_facts(attachment, state);
        if (!reads || (state->prof_active == FACT_UNKNOWN && attachment->request.way != WAY_MEMORY))
            rc = access_state(attachment, state, &watch->fault);
    }
    if (rc == FAULT_NONE && reads)
        rc = access_profile(attachment, &watch->capture, NULL, &watch->fault);
    attachment_rest(attachment);
    watch->start.active = state->prof_active;
    watch->start.switched = watch->sampling.owed;
    return rc;
}

/* The first attach does all that later ones do, so that their memory is touched before it is
 * locked. */
fault_code watching_open(struct watching *watch)
{
    const struct last_profile_request keep = {.step_ns = LAST_STEP_NS, .percent = READ_PERCENT};
    fault_code rc;

    memset(&watch->sampling, 0, sizeof watch->sampling);
    watch->kept_reported = 0;
    watch->kept_next = watch->kept_tell_next = 0;
    watch->attached = true;
    rc = access_open(&watch->attachment, &watch->request.attach, &watch->fault);
    if (rc == FAULT_NONE)
        rc = check_first(watch);
    if (rc == FAULT_NONE) {
        watch->metered = true;
        rc = meter_open(&watch->meter, &watch->rules, &watch->attachment.target, &watch->fault);
    }
    rules_restart(&watch->rules);
    last_profile_plan(&watch->last, &keep, watch->attachment.read.last.ns);
    return rc;
}

bool watching_stop(struct watching *watch)
{
    bool attached = watch->attached;

    if (watch->metered)
        meter_close(&watch->meter);
    watch->metered = watch->attached = false;
    return attached;
}
