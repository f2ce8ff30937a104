#include "run/watch.h"
#include "base/text.h"
#include "host/container.h"
#include "run/faults.h"
#include "run/filename.h"
#include "run/interrupt.h"
#include "run/keep.h"
#include "run/output.h"
#include "run/reserve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SECOND_NS ((uint64_t)1000000000)
#define MINUTE_NS (60 * SECOND_NS)

enum { PROFILE_RESERVE = 1 << 20, PROFILE_KEPT = 4 << 20, KEEP_DEFAULT = 10 };

enum { READ_PERCENT = 1 }; /* of the time, as a watch may take weeks */

/* ---- events ---- */

static struct watch_event watching_event(const struct watching *watch, enum watch_event_kind kind)
{
    return (struct watch_event){.kind = kind,
                                .name = watch->attachment.target.stat.comm,
                                .pid = (int)watch->attachment.target.pid,
                                .alarms = !watch->request.directory,
                                .made = watch->made};
}

/* Reports an event of this process. Returns next, or COURSE_FAILED if the report fails. */
static enum course watching_report(struct watching *watch, const struct watch_event *event,
                                   enum course next)
{
    const struct watch_request *request = &watch->request;
    struct fault fault;

    if (request->report(request->ctx, event, &fault) == FAULT_NONE)
        return next;
    watch->fault = fault;
    return COURSE_FAILED;
}

/* Reports EVENT_FAILED with watching.fault; fired 0: not caused by a rule. */
static enum course watching_report_failed(struct watching *watch, unsigned fired, uint64_t retry_ns)
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
    struct prof_state state;
    enum course course;
    fault_code rc;

    if (!watch->request.on || !watch->seen || now < watch->kept_next || sampling_is_on(attachment))
        return report_restored(watch, NULL);
    watch->kept_next = now + SECOND_NS;
    rc = attachment_renew(attachment, interrupt_flag(), &watch->fault);
    if (rc == FAULT_NONE) /* modules come and go */
        watch->seen = !access_find_byte(attachment, false, &state);
    if (rc == FAULT_NONE && watch->seen)
        rc = sampling_keep(attachment, &watch->sampling, &watch->fault);
    attachment_rest(attachment);
    course = rc == FAULT_NONE ? COURSE_ON : course_of(watch);
    return course == COURSE_ON ? report_restored(watch, rc == FAULT_NONE ? NULL : &watch->fault)
                               : course;
}

/* ---- the command ---- */

static enum course report_command(struct watching *watch, struct command_end end)
{
    struct watch_event event = watching_event(watch, EVENT_COMMAND);

    event.command = end;
    return watching_report(watch, &event, COURSE_ON);
}

/* The names are for the command: docs/jeattach.1. path: of the profile; "": there is none. */
static enum course start_command(struct watching *watch, unsigned fired, const char *path)
{
    char pid[32], rss[48], limit[48], rule[sizeof watch->rules.list[0].text + 16],
        file[FILENAME_MAX_BYTES + 32];
    char name[FILENAME_TEXT_MAX + 16];
    char *const variables[] = {pid, name, rule, rss, limit, file, NULL};
    const struct target *target = &watch->attachment.target;
    char clean[FILENAME_TEXT_MAX];
    int err;

    if (!watch->request.command)
        return COURSE_ON;
    snprintf(pid, sizeof pid, "JEATTACH_PID=%d", (int)target->pid);
    snprintf(rule, sizeof rule, "JEATTACH_RULE=%s", watch->rules.list[__builtin_ctz(fired)].text);
    snprintf(rss, sizeof rss, "JEATTACH_RSS=%" PRIu64, watch->measures.rss);
    snprintf(limit, sizeof limit, "JEATTACH_LIMIT=%" PRIu64, watch->measures.limit);
    snprintf(file, sizeof file, "JEATTACH_PROFILE=%s", path);
    snprintf(name, sizeof name, "JEATTACH_NAME=%s", filename_clean(target->stat.comm, clean));
    err = command_start(&watch->command, watch->request.command, variables);
    return err ? report_command(watch, (struct command_end){.err = err}) : COURSE_ON;
}

/* One that succeeds is not mentioned. */
static enum course look_at_command(struct watching *watch)
{
    int status;

    return command_ended(&watch->command, &status) && status
               ? report_command(watch, (struct command_end){.status = status})
               : COURSE_ON;
}

/* ---- one profile ---- */

static bool name_profile(const struct watching *watch, const struct capture *capture, char *out,
                         size_t size)
{
    const struct target *target = &watch->attachment.target;
    const bool last = capture == &watch->last.kept;
    struct filename_facts facts;
    struct container container;
    char directory[FILENAME_MAX_BYTES], within[2 + POD_MAX] = "", user[16] = "";
    int n = snprintf(directory, sizeof directory, "%s/", watch->request.directory);

    filename_facts(&facts, target);
    /* Others may have a process of that name: its container and its user are added (run/keep.h). */
    if (container_read(target->proc, target->pid, &container)) {
        const char *id = container.pod[0] ? container.pod : container.id;
        int most = strlen(id) == CONTAINER_ID_LEN ? 12 : POD_MAX;
        snprintf(within, sizeof within, "@%.*s", most, id);
    }
    if (target->status.uid != geteuid())
        snprintf(user, sizeof user, "@uid%u", (unsigned)target->status.uid);
    snprintf(facts.name, sizeof facts.name, "%.15s%s%s", target->stat.comm, within, user);
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
    event.removed = keep_newest(watch->request.directory, text_base_name(path),
                                watch->request.keep ? watch->request.keep : KEEP_DEFAULT);
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

static enum course make_alarm(struct watching *watch, unsigned fired)
{
    struct watch_event event = watching_event(watch, EVENT_ALARM);

    watch->made++;
    rules_fired(&watch->rules, fired, clock_now());
    event.rules = &watch->rules;
    event.fired = fired;
    event.measures = &watch->measures;
    return watching_report(watch, &event, COURSE_ON) == COURSE_ON ? start_command(watch, fired, "")
                                                                  : COURSE_FAILED;
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
        if (course == COURSE_ON)
            course = start_command(watch, fired, output.path);
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

/* A process without memory has ended, or is in execve(2). */
static enum course measure_once(struct watching *watch)
{
    const bool profiles = watch->request.directory;
    enum course course = keep_active(watch);
    struct fault fault;
    unsigned fired;

    if (course == COURSE_ON)
        course = look_at_command(watch);
    if (course != COURSE_ON)
        return course;
    if (!meter_read(&watch->meter, &watch->measures))
        return target_check(&watch->attachment.target, &fault) == FAULT_NONE ? COURSE_ON
                                                                             : COURSE_ENDED;
    fired = rules_look(&watch->rules, &watch->measures);
    if (fired)
        return profiles ? make_profile(watch, fired) : make_alarm(watch, fired);
    if (!profiles || clock_now() < watch->last.next_ns)
        return COURSE_ON;
    last_profile_take(&watch->last, &watch->attachment, UINT64_MAX);
    if (watch->last.ended.code == FAULT_NONE)
        return COURSE_ON;
    watch->fault = watch->last.ended;
    return course_of(watch);
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

/*
 * Watches until the course is another one than COURSE_ON. If the process has ended, or is another
 * program, writes the last profile that was read of it, unless it has no sample.
 */
static enum course watching_run(struct watching *watch)
{
    enum course course = report_watching(watch);

    while (course == COURSE_ON) {
        course = measure_once(watch);
        if (course == COURSE_ON && watch->made >= watch->request.most)
            course = COURSE_FULL;
        if (course == COURSE_ON) {
            enum meter_end end =
                meter_wait(&watch->meter, rules_pause(&watch->rules), interrupt_flag());
            if (end == METER_ENDED)
                course = COURSE_ENDED;
            else if (end == METER_INTERRUPTED)
                course = COURSE_INTERRUPTED;
        }
    }
    return course == COURSE_ENDED || course == COURSE_EXECED ? write_last(watch, course) : course;
}

/* Detects now what would prevent a profile later. */
static fault_code check_first(struct watching *watch)
{
    struct attachment *attachment = &watch->attachment;
    struct prof_state *state = &watch->sampling.former;
    const bool reads = access_reads(attachment);
    struct prof_state ignored;
    fault_code rc = FAULT_NONE;

    if (watch->request.on) {
        rc = sampling_begin(attachment, &watch->sampling, &watch->fault);
        if (rc == FAULT_NONE)
            sampling_tell(attachment, &watch->sampling);
        watch->seen =
            attachment->request.way != WAY_CALL && !access_find_byte(attachment, false, &ignored);
    } else {
        attachment_read_facts(attachment, state);
        if (!reads || (state->prof_active == FACT_UNKNOWN && attachment->request.way != WAY_MEMORY))
            rc = access_state(attachment, state, &watch->fault);
    }
    if (rc == FAULT_NONE && reads)
        rc = access_profile(attachment, &watch->capture, NULL, &watch->fault);
    watch->start.active = state->prof_active;
    watch->start.switched = watch->sampling.owed;
    return rc;
}

/*
 * Opens the process of request.attach, checks that it can profile, and switches profiling on if
 * requested. Resets the rules. The first attach does all that later ones do, so that their memory
 * is touched before it is locked.
 */
static fault_code watching_open(struct watching *watch)
{
    const struct last_profile_request keep = {.step_ns = LAST_STEP_NS, .percent = READ_PERCENT};
    fault_code rc;

    memset(&watch->sampling, 0, sizeof watch->sampling);
    watch->kept_reported = 0;
    watch->kept_next = watch->kept_tell_next = 0;
    watch->attached = true;
    rc = watch->request.directory
             ? access_open(&watch->attachment, &watch->request.attach, &watch->fault)
             : attachment_map(&watch->attachment, &watch->request.attach, &watch->fault);
    if (rc == FAULT_NONE && watch->request.directory)
        rc = check_first(watch);
    attachment_rest(&watch->attachment);
    if (rc == FAULT_NONE) {
        watch->metered = true;
        rc = meter_open(&watch->meter, &watch->rules, &watch->attachment.target, &watch->fault);
    }
    rules_restart(&watch->rules);
    last_profile_plan(&watch->last, &keep, watch->attachment.read.last.ns);
    return rc;
}

/*
 * Stops measuring. True if the attachment is open: then call sampling_settle, unless the process is
 * gone, and attachment_close.
 */
static bool watching_stop(struct watching *watch)
{
    bool attached = watch->attached;

    if (watch->metered)
        meter_close(&watch->meter);
    watch->metered = watch->attached = false;
    return attached;
}

/* ---- the whole watch ---- */

fault_code watch_check_directory(const char *directory, struct fault *fault)
{
    struct output output = {.fd = -1};
    char path[FILENAME_MAX_BYTES];
    fault_code rc;
    struct stat st;

    if (stat(directory, &st))
        return fault_set(fault, FAULT_OUTPUT, errno, "write output", "%s%s", directory,
                         text_ends_with(directory, "/") ? "" : "/");
    if (!S_ISDIR(st.st_mode))
        return fault_set(fault, FAULT_OUTPUT, ENOTDIR, "write output", "%s", directory);
    snprintf(path, sizeof path, "%s/x", directory);
    rc = output_open(&output, path, fault);
    output_close(&output);
    return rc;
}

/* ---- the end of one process ---- */

/* Reports rc, if it is a fault, and restores prof.active if needed. False: something failed. */
static bool finish_process(struct watching *watching, fault_code rc)
{
    const struct watch_request *request = &watching->request;
    struct fault fault;
    bool good;

    if (!watching_stop(watching))
        return true;
    if (request->finish)
        return request->finish(request->ctx, rc);
    good = sampling_settle(&watching->attachment, &watching->sampling, &fault) == FAULT_NONE;
    attachment_close(&watching->attachment);
    return good && rc == FAULT_NONE;
}

/* Closes a process that is gone: nothing is to be restored. */
static void leave_process(struct watching *watching)
{
    const struct watch_request *request = &watching->request;

    if (!watching_stop(watching))
        return;
    sampling_leave(&watching->attachment, &watching->sampling);
    if (request->leave)
        request->leave(request->ctx);
    else
        attachment_close(&watching->attachment);
}

static enum course finish_stopped(struct watching *watching, enum course why)
{
    struct watch_event event = watching_event(watching, EVENT_STOPPED);
    fault_code rc = FAULT_NONE;

    event.course = why;
    if (watching_report(watching, &event, COURSE_ON) == COURSE_FAILED)
        rc = watching->fault.code;
    return finish_process(watching, rc) ? why : COURSE_FAILED;
}

static enum course leave_ended(struct watching *watching)
{
    struct watch_event event = watching_event(watching, EVENT_ENDED);
    enum course course = watching_report(watching, &event, COURSE_ENDED);

    leave_process(watching);
    return course;
}

/* Ends the watch after this course. */
static enum course end_watch(struct watching *watching, enum course course)
{
    switch (course) {
    case COURSE_FULL:
    case COURSE_INTERRUPTED:
        return finish_stopped(watching, course);
    case COURSE_ENDED:
        return leave_ended(watching);
    default:
        (void)finish_process(watching, watching->fault.code);
        return COURSE_FAILED;
    }
}

/* The end of a watch, when the process is as it was and nothing is left to be written. */
static enum course wait_for_command(struct watching *watch, enum course course)
{
    while (watch->command.pid && !*interrupt_flag()) {
        const struct pause pause = {.until = clock_now() + SECOND_NS / 20,
                                    .interrupted = interrupt_flag()};
        (void)pause_until(&pause);
        if (look_at_command(watch) == COURSE_FAILED)
            course = COURSE_FAILED;
    }
    return course;
}

/* ---- one process ---- */

/* False: interrupted. */
static bool wait_for_ns(uint64_t ns)
{
    const struct pause pause = {.until = clock_now() + ns, .interrupted = interrupt_flag()};

    return pause_until(&pause) != PAUSE_INTERRUPTED;
}

enum course watch_process(struct watch *watch)
{
    struct watching *watching = &watch->watching;
    enum course course;

    do {
        fault_code rc = watching_open(watching);
        if (rc != FAULT_NONE) {
            (void)finish_process(watching, rc);
            return COURSE_FAILED;
        }
        course = watching_run(watching);
        if (course == COURSE_EXECED) {
            leave_process(watching);
            (void)wait_for_ns(SECOND_NS); /* the new program is being loaded */
        }
    } while (course == COURSE_EXECED);
    return wait_for_command(watching, end_watch(watching, course));
}

/* ---- one process after the other ---- */

enum course watch_report_waiting(struct watch *watch)
{
    const struct watch_event event = {.kind = EVENT_WAITING, .name = watch->wanted};

    watch->patient = true;
    return watching_report(&watch->watching, &event, COURSE_ON);
}

/* After a failure: retries the process later, or waits for its successor. */
static enum course retry_later(struct watch *watch, fault_code rc)
{
    struct watching *watching = &watch->watching;
    uint64_t pause = watch->failures < 6 ? SECOND_NS << watch->failures : 60 * SECOND_NS;
    enum course course = COURSE_ON;

    if (sampling_is_gone(&watching->attachment, &watching->sampling, rc)) {
        leave_process(watching);
        return wait_for_ns(SECOND_NS) ? COURSE_ON : COURSE_INTERRUPTED;
    }
    watch->follow.done = fault_is_permanent(rc);
    watch->failures++;
    course = watching_report_failed(watching, 0, watch->follow.done ? 0 : pause);
    if (watching->sampling.owed)
        (void)finish_process(watching, FAULT_NONE);
    else
        leave_process(watching);
    if (course == COURSE_ON && !watch->follow.done && !wait_for_ns(pause))
        course = COURSE_INTERRUPTED;
    return course;
}

static enum course watch_opened(struct watch *watch)
{
    enum course course = watching_run(&watch->watching);

    if (course == COURSE_EXECED) {
        leave_process(&watch->watching);
        course = COURSE_ON;
    } else if (course == COURSE_ENDED || (course == COURSE_FULL && watch->endless)) {
        /* Its successor is next, also after all profiles of a process. */
        watch->follow.done = watch->follow.done || course == COURSE_FULL;
        course = course == COURSE_FULL ? finish_stopped(&watch->watching, course)
                                       : leave_ended(&watch->watching);
        if (course != COURSE_FAILED)
            course = watch_report_waiting(watch);
    }
    watch->patient = true;
    return course;
}

/* COURSE_ON: search for the next process. */
static enum course watch_found(struct watch *watch)
{
    struct watching *watching = &watch->watching;
    const struct target_pin *pin = &watch->follow.pin;
    enum course course;
    fault_code rc;

    watching->request.attach.pin = pin;
    watching->request.attach.pid = pin->pid;
    if (pin->pid != watch->former.pid || pin->start != watch->former.start) {
        watching->made = 0;
        watch->failures = 0;
    }
    watch->former = *pin;
    rc = watching_open(watching);
    if (rc != FAULT_NONE && (!watch->patient || rc == FAULT_INTERRUPTED)) {
        (void)finish_process(watching, rc);
        return COURSE_FAILED;
    }
    course = rc == FAULT_NONE ? watch_opened(watch) : retry_later(watch, rc);
    return course == COURSE_ON ? course : end_watch(watching, course);
}

enum course watch_matching(struct watch *watch)
{
    enum course course = COURSE_ON;

    while (course == COURSE_ON) {
        if (!follow_wait(&watch->follow, interrupt_flag()))
            return COURSE_INTERRUPTED;
        course = watch_found(watch);
    }
    return wait_for_command(&watch->watching, course);
}
