/*
 * run/ without a command line: this program is linked with it and nothing above. It finds a
 * process, samples it, takes a profile of it and writes that, and reads what happens from data.
 */
#include "check.h"
#include "run/access.h"
#include "run/account.h"
#include "run/faults.h"
#include "run/interrupt.h"
#include "run/sampling.h"
#include "run/targets.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static const uint64_t SECOND = 1000000000;

/* ---- a process ---- */

struct grower {
    pid_t pid;
    int in, out; /* its stdin and stdout */
};

/* Reads a line of it, the next one. A deadline that ticks interrupts that. */
static bool grower_answers(const struct grower *grower)
{
    char answer[256];
    ssize_t n;

    do
        n = read(grower->out, answer, sizeof answer);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

static bool grower_start(struct grower *grower)
{
    char program[PATH_MAX], *argv[] = {program, NULL};
    char conf[] = "MALLOC_CONF=prof:true,prof_active:false,lg_prof_sample:0", *env[] = {conf, NULL};
    const char *victims = getenv("JEATTACH_VICTIMS");
    posix_spawn_file_actions_t actions;
    int in[2], out[2];

    snprintf(program, sizeof program, "%s/grower", victims ? victims : ".");
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    int err = posix_spawn(&grower->pid, program, &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    grower->in = in[1];
    grower->out = out[0];
    return err == 0 && grower_answers(grower); /* "ready" */
}

/* Returns when it has done that. */
static bool grower_order(const struct grower *grower, const char *order)
{
    return write(grower->in, order, strlen(order)) == (ssize_t)strlen(order) &&
           grower_answers(grower);
}

static void grower_end(const struct grower *grower)
{
    close(grower->in);
    close(grower->out);
    waitpid(grower->pid, NULL, 0);
}

/* ---- what a run reports ---- */

struct heard {
    unsigned notes[NOTE_PERIODS_DIFFER + 1];
    unsigned progress;
    bool recording, over;
};

static void hear_note(void *ctx, const struct run_note *note)
{
    struct heard *heard = ctx;

    heard->notes[note->kind]++;
}

static void hear_progress(void *ctx, const struct run_progress *progress)
{
    struct heard *heard = ctx;

    heard->over = !progress;
    if (!progress)
        return;
    heard->progress++;
    heard->recording = progress->activity == RUN_RECORDING && progress->rss_bytes > 0 &&
                       progress->total_ns > 0 && progress->total_ns <= SECOND;
}

/* ---- a recording ---- */

struct recording {
    const struct grower *grower;
    struct attachment attachment;
    struct sampling sampling;
    struct capture capture;
    struct fault fault;
    char directory[32], path[64];
};

static fault_code sample(struct recording *recording)
{
    struct attachment *attachment = &recording->attachment;
    struct sampling *sampling = &recording->sampling;
    struct fault *fault = &recording->fault;
    fault_code rc = sampling_begin(attachment, sampling, fault);

    if (rc != FAULT_NONE)
        return rc;
    sampling_tell(attachment, sampling);
    CHECK(sampling->owed && grower_order(recording->grower, "grow 1048576\n"));
    CHECK(sampling_wait(attachment, sampling, RUN_RECORDING, clock_now() + SECOND / 10, NULL) ==
          PAUSE_OVER);
    return sampling_finish(attachment, sampling, &recording->capture, fault);
}

static fault_code write_json(struct recording *recording)
{
    struct presentation presentation = {.format = FORMAT_JSON,
                                        .display = {.value = VALUE_BYTES, .title = "a title"},
                                        .events = recording->attachment.request.events};
    struct output output = {.fd = -1};
    fault_code rc;

    snprintf(recording->path, sizeof recording->path, "%s/profile%s", recording->directory,
             format_extension(FORMAT_JSON));
    rc = output_open_new(&output, recording->path, false, &recording->fault);
    if (rc == FAULT_NONE)
        rc = capture_write(&recording->attachment, &presentation, &recording->capture, &output,
                           &recording->fault);
    output_close(&output);
    presentation_free(&presentation);
    return rc;
}

static fault_code record(struct recording *recording, const struct target_pin *pin,
                         const struct run_events *events)
{
    const struct attach_request request = {
        .pid = pin->pid, .pin = pin, .timeout_ns = 20 * SECOND, .way = WAY_CALL, .events = events};
    fault_code rc = attachment_find(&recording->attachment, &request, &recording->fault);
    struct fault own;

    capture_init(&recording->capture);
    if (rc == FAULT_NONE)
        rc = sample(recording);
    if (rc == FAULT_NONE)
        rc = write_json(recording);
    CHECK(sampling_settle(&recording->attachment, &recording->sampling, &own) == FAULT_NONE);
    attachment_close(&recording->attachment);
    capture_free(&recording->capture);
    return rc;
}

/* ---- the test ---- */

static bool file_has(const char *path, const char *word)
{
    char text[8192] = "";
    FILE *file = fopen(path, "re");

    if (!file)
        return false;
    bool good = fread(text, 1, sizeof text - 1, file) > 0;
    fclose(file);
    return good && strstr(text, word);
}

/* Where nobody may trace, as in some containers. */
static bool is_denied(fault_code code)
{
    return code == FAULT_DENIED || code == FAULT_DENIED_SECCOMP || code == FAULT_DENIED_YAMA ||
           code == FAULT_DENIED_LSM || code == FAULT_TOOL_TRACED;
}

/* The process is found among those below this one, and with no other. */
static bool find_grower(struct targets *targets, const struct grower *grower)
{
    const struct targets_request request = {
        .search = true,
        .selector = {.name = "grower", .roots = &grower->pid, .root_count = 1},
        .timeout_ns = 20 * SECOND};
    struct fault fault;

    return CHECK(targets_find(targets, &request, &fault) == FAULT_NONE) &&
           CHECK(targets->count == 1 && targets->pins[0].pid == grower->pid);
}

static int test_recording(const struct grower *grower)
{
    struct recording recording = {.grower = grower, .directory = "/tmp/test_run.XXXXXX"};
    struct heard heard = {.over = false};
    const struct run_events events = {.ctx = &heard, .note = hear_note, .progress = hear_progress};
    struct targets targets;
    int code = 0;

    if (CHECK(mkdtemp(recording.directory)) && find_grower(&targets, grower)) {
        fault_code rc = record(&recording, &targets.pins[0], &events);
        if (is_denied(rc)) {
            printf("SKIP: no process may be attached to here (errno %d)\n", recording.fault.err);
            code = SKIPPED;
        } else if (CHECK(rc == FAULT_NONE)) {
            CHECK(heard.notes[NOTE_SWITCHED_ON] == 1 && heard.notes[NOTE_SWITCHED_BY_ANOTHER] == 0);
            CHECK(heard.progress > 0 && heard.recording && heard.over);
            CHECK(recording.attachment.caller.holds == 5 && !recording.sampling.owed);
            CHECK(file_has(recording.path, "largest_stacks"));
        }
    }
    unlink(recording.path);
    rmdir(recording.directory);
    targets_free(&targets);
    return code;
}

/* Errors are faults, and their data is sufficient to understand them. */
static void test_no_jemalloc(void)
{
    const struct attach_request request = {.pid = getppid(), .timeout_ns = 20 * SECOND};
    struct attachment attachment;
    struct fault fault;

    CHECK(attachment_find(&attachment, &request, &fault) != FAULT_NONE && fault.stage);
    attachment_close(&attachment);
    attachment_close(&attachment);
}

/* What a process has mapped since it was found is counted, too, and is not outside jemalloc. */
static void test_account(const struct grower *grower)
{
    const struct attach_request request = {
        .pid = grower->pid, .timeout_ns = 20 * SECOND, .way = WAY_MEMORY};
    struct attachment attachment;
    struct account account;
    struct fault fault;

    if (CHECK(attachment_find(&attachment, &request, &fault) == FAULT_NONE) &&
        CHECK(grower_order(grower, "grow 134217728\n")) &&
        CHECK(account_read_records(&account, &attachment, &fault) == FAULT_NONE)) {
        const struct account_sum sum = account_sum_up(&account);
        CHECK(sum.known[ACCOUNT_OWN] && sum.bytes[ACCOUNT_IN_USE] >= 128 << 20);
        CHECK(sum.known[ACCOUNT_OUTSIDE] && sum.bytes[ACCOUNT_OUTSIDE] < 64 << 20);
    }
    attachment_close(&attachment);
}

int main(void)
{
    struct grower grower;
    int code;

    interrupt_init(1);
    if (!CHECK(grower_start(&grower)))
        return check_result();
    CHECK(grower_order(&grower, "grow 4096\n"));
    test_no_jemalloc();
    code = test_recording(&grower);
    if (code != SKIPPED)
        test_account(&grower);
    grower_end(&grower);
    return code && !checks_failed ? code : check_result();
}
