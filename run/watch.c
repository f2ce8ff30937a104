#include "run/watch.h"
#include "base/text.h"
#include "run/faults.h"
#include "run/filename.h"
#include "run/interrupt.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define SECOND_NS ((uint64_t)1000000000)

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
    return end_watch(watching, course);
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

static void take_found(struct watch *watch)
{
    const struct target_pin *pin = &watch->follow.pin;
    struct attach_request *attach = &watch->watching.request.attach;

    attach->pin = pin;
    attach->pid = pin->pid;
    if (pin->pid != watch->former.pid || pin->start != watch->former.start) {
        watch->watching.made = 0;
        watch->failures = 0;
    }
    watch->former = *pin;
}

/* After a process that has ended, or has all its profiles. */
static enum course wait_for_successor(struct watch *watch, enum course course)
{
    if (course == COURSE_FULL) {
        watch->follow.done = true;
        course = finish_stopped(&watch->watching, course);
    } else {
        course = leave_ended(&watch->watching);
    }
    return course == COURSE_FAILED ? course : watch_report_waiting(watch);
}

static enum course watch_opened(struct watch *watch)
{
    enum course course = watching_run(&watch->watching);

    if (course == COURSE_ENDED || (course == COURSE_FULL && watch->endless))
        course = wait_for_successor(watch, course);
    else if (course == COURSE_EXECED)
        leave_process(&watch->watching);
    watch->patient = true;
    return course == COURSE_EXECED ? COURSE_ON : course;
}

/* COURSE_ON: search for the next process. */
static enum course watch_found(struct watch *watch)
{
    enum course course;
    fault_code rc;

    take_found(watch);
    rc = watching_open(&watch->watching);
    if (rc != FAULT_NONE && (!watch->patient || rc == FAULT_INTERRUPTED)) {
        (void)finish_process(&watch->watching, rc);
        return COURSE_FAILED;
    }
    course = rc == FAULT_NONE ? watch_opened(watch) : retry_later(watch, rc);
    return course == COURSE_ON ? course : end_watch(&watch->watching, course);
}

enum course watch_matching(struct watch *watch)
{
    enum course course = COURSE_ON;

    while (course == COURSE_ON) {
        if (!follow_wait(&watch->follow, interrupt_flag()))
            return COURSE_INTERRUPTED;
        course = watch_found(watch);
    }
    return course;
}
