#include "run/recording.h"
#include "run/faults.h"
#include "run/filename.h"
#include "run/interrupt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void recording_init(struct recording *recording, const struct recording_request *request,
                    struct attachment *attachment)
{
    memset(recording, 0, sizeof *recording);
    recording->request = *request;
    recording->attachment = attachment;
    recording->output.fd = -1;
    last_profile_init(&recording->last);
}

void recording_free(struct recording *recording)
{
    output_close(&recording->output);
    trigger_close(&recording->trigger);
    last_profile_free(&recording->last);
    for (size_t i = 0; i < recording->count; i++)
        free(recording->list[i].path);
    free(recording->list);
    free(recording->last_name);
}

static bool to_stdout(const struct recording *recording)
{
    return strcmp(recording->request.template, "-") == 0;
}

/* ---- files ---- */

/* Expands the name with the present facts, or with those of the last profile. */
static fault_code expand_name(const struct recording *recording, char *out, size_t size,
                              struct fault *fault)
{
    const char *template = recording->request.template;
    const char *extension = format_extension(recording->request.presentation->format);
    const bool gone = recording->why == RECORDED_GONE;
    char path[FILENAME_MAX_BYTES];
    struct filename_facts facts;
    bool good;

    filename_facts(&facts, &recording->attachment->target);
    if (gone)
        filename_facts_then(&facts, recording->capture.time_ns, recording->last.rss);
    good = filename_expand(template, extension, &facts, path, sizeof path);
    if (good && gone && recording->request.made_up)
        good = filename_mark(path, "cut-short", out, size);
    else if (good)
        good = filename_number(path, 0, out, size);
    if (good)
        return FAULT_NONE;
    return fault_set(fault, FAULT_OUTPUT, ENAMETOOLONG, "write output", "%s", template);
}

/* A name without directives is the operator's choice: if it is taken, that is refused at once. */
static fault_code open_next(struct recording *recording, struct fault *fault)
{
    const char *template = recording->request.template;
    char path[FILENAME_MAX_BYTES];
    bool may_number = recording->request.may_number || filename_has_directives(template) ||
                      filename_is_directory(template);
    fault_code rc;

    if (to_stdout(recording) || recording->request.replace) {
        rc = output_open(&recording->output, template, fault);
    } else {
        rc = expand_name(recording, path, sizeof path, fault);
        if (rc == FAULT_NONE)
            rc = output_open_new(&recording->output, path, may_number, fault);
    }
    if (rc == FAULT_NONE)
        output_set_mode(&recording->output, recording->request.mode);
    return rc;
}

static fault_code list_written(struct recording *recording, struct fault *fault)
{
    struct recorded *list =
        reallocarray(recording->list, recording->count + 1, sizeof *recording->list);
    struct recorded *recorded;

    if (!list)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "record", "the list of files");
    recording->list = list;
    recorded = &list[recording->count];
    *recorded = (struct recorded){.path = strdup(recording->output.path),
                                  .bytes = recording->capture.bytes,
                                  .time_ns = recording->capture.time_ns,
                                  .why = recording->why,
                                  .rss = recording->trigger.rss,
                                  .allocated = recording->trigger.allocated};
    if (recording->why == RECORDED_GONE) {
        recorded->rss = recording->last.rss;
        recorded->age_ns = recording->sampling.cut_short_ns;
    }
    if (!recorded->path)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "record", "the list of files");
    recording->count++;
    (void)outfile_identify(recorded->path, &recorded->dev, &recorded->ino);
    return FAULT_NONE;
}

/* Removes a profile of this run, unless its name belongs to another file now. */
static void remove_recorded(struct recorded *recorded)
{
    recorded->removed =
        recorded->ino && outfile_remove(recorded->path, recorded->dev, recorded->ino);
}

static void rotate(struct recording *recording)
{
    size_t keep = recording->request.keep;

    if (keep && recording->count > keep)
        remove_recorded(&recording->list[recording->count - keep - 1]);
}

/* Gives the output its final name. A name that rotation has freed is not used again. */
static fault_code name_output(struct recording *recording, struct fault *fault)
{
    char path[FILENAME_MAX_BYTES];
    fault_code rc = expand_name(recording, path, sizeof path, fault);

    if (rc != FAULT_NONE)
        return rc;
    if (recording->last_name && strcmp(recording->last_name, path) == 0)
        recording->output.number = recording->last_number + 1;
    free(recording->last_name);
    recording->last_name = strdup(path);
    if (!recording->last_name || !output_name(&recording->output, path))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "record", "%s", path);
    return FAULT_NONE;
}

/* Only for jemalloc's own format: for the others present_write reports it. */
static void note_unsampled(const struct recording *recording)
{
    const struct sink *text = &recording->capture.text;
    const struct run_note note = {.kind = NOTE_NOTHING_SAMPLED,
                                  .count = (uint64_t)1
                                           << (recording->sampling.former.lg_sample & 63)};

    if (recording->request.presentation->format == FORMAT_RAW &&
        !memmem(text->bytes, text->len, "\n@ 0x", 5))
        attachment_note(recording->attachment, &note);
}

static fault_code write_next(struct recording *recording, struct fault *fault)
{
    const struct recording_request *request = &recording->request;
    fault_code rc = FAULT_NONE;

    note_unsampled(recording);
    if (!to_stdout(recording))
        rc = name_output(recording, fault);
    if (rc == FAULT_NONE)
        rc = capture_write(recording->attachment, request->presentation, &recording->capture,
                           &recording->output, fault);
    request->presentation->terse = true;
    recording->last_number = recording->output.number;
    if (rc == FAULT_NONE)
        rc = list_written(recording, fault);
    if (rc == FAULT_NONE && request->written)
        request->written(request->ctx, &recording->list[recording->count - 1]);
    output_close(&recording->output);
    rotate(recording);
    last_profile_restart(&recording->last);
    return rc;
}

/* The fault of the end stays the result, unless the file cannot be written. */
static fault_code write_kept(struct recording *recording, fault_code end, struct fault *fault)
{
    const uint64_t age = last_profile_use(&recording->last, &recording->capture);
    struct fault unwritten;
    fault_code rc = FAULT_NONE;

    if (!age)
        return end;
    recording->why = RECORDED_GONE;
    recording->sampling.cut_short_ns = age;
    recording->request.presentation->cut_short = true;
    if (recording->output.fd < 0)
        rc = open_next(recording, &unwritten);
    if (rc == FAULT_NONE)
        rc = write_next(recording, &unwritten);
    capture_free(&recording->capture);
    if (rc == FAULT_NONE)
        return end;
    *fault = unwritten;
    return rc;
}

/* ---- one profile ---- */

/* The first Ctrl-C ends only the waiting; the profile is still taken and written. */
static fault_code take_next(struct recording *recording, bool last, struct fault *fault)
{
    struct attachment *attachment = recording->attachment;
    struct sampling *sampling = &recording->sampling;
    struct capture *capture = &recording->capture;
    fault_code rc;

    last_profile_make_room(&recording->last, attachment);
    rc = last ? sampling_finish(attachment, sampling, capture, fault)
              : sampling_profile(attachment, sampling, capture, fault);

    /* Nothing is left to be restored: a signal may end a wait for a slow reader. */
    if (rc == FAULT_NONE && last && !sampling->owed)
        interrupt_patience(to_stdout(recording) ? 0 : 2, NULL);
    if (rc == FAULT_NONE)
        rc = write_next(recording, fault);
    capture_free(&recording->capture);
    return rc;
}

/* ---- all profiles ---- */

/* Returns when the next profile is due. One that is late is taken; missed ones are skipped. */
static uint64_t next_moment(struct recording *recording, uint64_t moment)
{
    uint64_t every = recording->request.every_ns, now = clock_now(), next = moment + every;

    if (next < now && next < recording->until) {
        bool skips = now - next >= every;

        if (skips && !recording->too_slow)
            attachment_note(recording->attachment,
                            &(struct run_note){.kind = NOTE_PROFILES_SKIPPED});
        recording->too_slow |= skips;
        next += (now - next) / every * every;
    }
    return next < recording->until ? next : recording->until;
}

/* Waits until the next profile is due. False: the process has ended. */
static bool await_next_profile(struct recording *recording, uint64_t *moment, bool *last)
{
    struct sampling *sampling = &recording->sampling;
    struct trigger *trigger = &recording->trigger;
    const bool triggered = trigger_is_set(&recording->request.trigger);
    const unsigned count = recording->request.count;

    *moment = triggered ? recording->until : next_moment(recording, *moment);
    trigger_rearm(trigger);
    if (last_profile_wait(&recording->last, recording->attachment, sampling, RUN_RECORDING, *moment,
                          triggered ? trigger : NULL) == PAUSE_ENDED)
        return false;
    *last = sampling->interrupted || (!trigger->due && *moment >= recording->until);
    if (!trigger->due)
        trigger_refresh(trigger);
    recording->why = *last       ? RECORDED_END
                     : triggered ? (trigger->request.bytes ? RECORDED_BYTES : RECORDED_PEAK)
                                 : RECORDED_TIME;
    *last |= count && recording->count + 1 >= count;
    return true;
}

static bool is_profile_wanted(const struct recording *recording)
{
    return recording->why != RECORDED_END || !recording->request.trigger.percent ||
           !recording->count;
}

static fault_code take_all(struct recording *recording, struct fault *fault)
{
    uint64_t moment = recording->sampling.began;
    fault_code rc = FAULT_NONE;
    bool last = false;

    while (rc == FAULT_NONE && !last) {
        if (!await_next_profile(recording, &moment, &last))
            return last_profile_lost(&recording->last, recording->attachment, fault);
        if (!is_profile_wanted(recording))
            break;
        if (recording->output.fd < 0)
            rc = open_next(recording, fault);
        if (rc == FAULT_NONE)
            rc = take_next(recording, last, fault);
    }
    return rc;
}

fault_code recording_run(struct recording *recording, struct fault *fault)
{
    struct attachment *attachment = recording->attachment;
    struct sampling *sampling = &recording->sampling;
    const struct last_profile_request keep = {.step_ns = LAST_STEP_NS,
                                              .percent = LAST_READ_PERCENT,
                                              .names = recording->request.presentation->format !=
                                                       FORMAT_RAW};
    uint64_t duration = recording->request.duration_ns;
    fault_code rc = open_next(recording, fault);

    if (rc == FAULT_NONE)
        rc = trigger_open(&recording->trigger, attachment, &recording->request.trigger, fault);
    if (rc == FAULT_NONE)
        rc = sampling_begin(attachment, sampling, fault);
    if (rc != FAULT_NONE)
        return rc;
    sampling_tell(attachment, sampling);
    recording->until = duration == UINT64_MAX ? UINT64_MAX : sampling->began + duration;
    sampling->reported_until = recording->until;
    last_profile_plan(&recording->last, &keep, 0);
    rc = take_all(recording, fault);
    return sampling_is_gone(attachment, sampling, rc) ? write_kept(recording, rc, fault) : rc;
}
