#include "jemalloc/examine.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

/* Values of items in the pool, beside fault codes, which are larger. */
enum { VALUE_NONE, VALUE_OTHER, VALUE_OWN, VALUE_MATCHES, VALUE_FOUND, VALUE_SELF };

enum record_kind { RECORD_FILE, RECORD_MATCH, RECORD_FOUND, RECORD_FAULT };

/* A record: its kind, then that member, or less of it (RECORD_FILE: what census_learn takes). */
struct examine_record {
    enum record_kind kind;
    union {
        unsigned char file[POOL_RECORD_MAX - sizeof(uint64_t)];
        struct {
            uint64_t start;
            struct container container;
            char engine[16];
        } match;
        struct {
            struct census_entry entry;
            struct container container;
            char engine[16];
        } found;
        struct examined_fault fault;
    };
};

#define RECORD_SIZE(member)                                                                        \
    (offsetof(struct examine_record, member) + sizeof((struct examine_record *)0)->member)

_Static_assert(sizeof(struct examine_record) <= POOL_RECORD_MAX, "the pool takes every record");

struct examining {
    struct examination *examination;
    const struct matches *matches;
    const struct selector *selector;
    bool pin;
    struct procfs *proc;
    struct census *census;
    pid_t self; /* of the tool, in this /proc */
    /* In the process that examines: */
    struct examine_record record;
    struct pool_line *line; /* NULL: it is the tool itself */
    size_t item;
};

/* ---- in the tool: records, of which nothing is believed ---- */

#define IS_TEXT(array) (memchr(array, '\0', sizeof(array)) != NULL)

/* Takes over a container; the name of its engine came as text. */
static bool accept_container(struct container *out, const struct container *container,
                             const char engine[16])
{
    if (!memchr(engine, '\0', 16) || !IS_TEXT(container->id) || !IS_TEXT(container->pod))
        return false;
    *out = *container;
    out->engine = container_engine(engine);
    return true;
}

static bool is_fact(enum fact fact)
{
    return fact == FACT_UNKNOWN || fact == FACT_NO || fact == FACT_YES;
}

static bool accept_found(struct examined *examined, const struct examine_record *record)
{
    struct examined_process *found = calloc(1, sizeof *found);
    const struct census_entry *entry = &record->found.entry;
    const struct prof_state *prof = &entry->prof;

    free(examined->found);
    examined->found = found;
    if (!found ||
        !accept_container(&found->container, &record->found.container, record->found.engine))
        return false;
    found->entry = *entry;
    return entry->stat.pid == examined->pid && IS_TEXT(entry->stat.comm) && IS_TEXT(entry->path) &&
           IS_TEXT(entry->prefix) && IS_TEXT(prof->build.text) && IS_TEXT(prof->prefix) &&
           is_fact(prof->build.config_prof) && is_fact(prof->build.opt_prof) &&
           is_fact(prof->prof_active) && entry->status.ns_pid_count <= NS_PIDS_MAX &&
           entry->linkage <= LINKAGE_STATIC;
}

static bool accept_fault(struct examined *examined, const struct examine_record *record)
{
    struct examined_fault *odd = calloc(1, sizeof *odd);

    free(examined->odd);
    examined->odd = odd;
    if (!odd || !IS_TEXT(record->fault.stage) || !IS_TEXT(record->fault.fault.what))
        return false;
    memcpy(odd->stage, record->fault.stage, sizeof odd->stage);
    fault_set(&odd->fault, record->fault.fault.code, record->fault.fault.err, odd->stage, "%s",
              record->fault.fault.what);
    return true;
}

static bool receive_examined(void *ctx, size_t item, const void *bytes, size_t size, int *fd)
{
    struct examining *examining = ctx;
    struct examined *examined = &examining->examination->list[item];
    const size_t head = offsetof(struct examine_record, file);
    struct examine_record *record = &examining->record;

    if (size < head || size > sizeof *record)
        return false;
    if (bytes != record)
        memcpy(record, bytes, size);
    switch (record->kind) {
    case RECORD_FILE:
        return census_learn(examining->census, record->file, size - head);
    case RECORD_MATCH:
        if (size != RECORD_SIZE(match))
            return false;
        target_pin_close(&examined->pin);
        examined->pin = (struct target_pin){examined->pid, record->match.start, steal_fd(fd)};
        return accept_container(&examined->selected, &record->match.container,
                                record->match.engine);
    case RECORD_FOUND:
        return size == RECORD_SIZE(found) && accept_found(examined, record);
    case RECORD_FAULT:
        return size == RECORD_SIZE(fault) && accept_fault(examined, record);
    }
    return false;
}

/* ---- in a worker ---- */

static void send_record(struct examining *examining, enum record_kind kind, size_t size, int fd)
{
    examining->record.kind = kind;
    if (examining->line)
        pool_send(examining->line, &examining->record, size, fd);
    else
        (void)receive_examined(examining, examining->item, &examining->record, size, &fd);
}

static void send_file(void *ctx, const void *file, size_t size)
{
    struct examining *examining = ctx;

    memcpy(examining->record.file, file, size);
    send_record(examining, RECORD_FILE, offsetof(struct examine_record, file) + size, -1);
}

static void copy_engine(char out[16], const struct container *container)
{
    strncpy(out, container->engine ? container->engine : "", 15);
    out[15] = '\0';
}

static void send_match(struct examining *examining, const struct target *target,
                       const struct container *container)
{
    struct examine_record *record = &examining->record;
    int copy = fcntl(target->pidfd, F_DUPFD_CLOEXEC, 0);

    memset(record, 0, RECORD_SIZE(match));
    record->match.start = target->stat.start;
    record->match.container = *container;
    copy_engine(record->match.engine, container);
    send_record(examining, RECORD_MATCH, RECORD_SIZE(match), copy);
    if (examining->line)
        util_close(&copy);
}

static void send_found(struct examining *examining, const struct census_entry *entry)
{
    struct examine_record *record = &examining->record;

    memset(record, 0, RECORD_SIZE(found));
    record->found.entry = *entry;
    (void)container_read(examining->proc, entry->stat.pid, &record->found.container);
    copy_engine(record->found.engine, &record->found.container);
    send_record(examining, RECORD_FOUND, RECORD_SIZE(found), -1);
}

static void send_fault(struct examining *examining, const struct fault *fault)
{
    struct examine_record *record = &examining->record;

    memset(record, 0, RECORD_SIZE(fault));
    record->fault.fault = *fault;
    strncpy(record->fault.stage, fault->stage ? fault->stage : "", sizeof record->fault.stage - 1);
    send_record(examining, RECORD_FAULT, RECORD_SIZE(fault), -1);
}

/* target is open if matches are pinned. */
static int examine_process(struct examining *examining, pid_t pid, const struct target *target)
{
    struct container container = {0};
    struct census_entry entry;
    struct fault fault = {0};
    fault_code code;

    if (!selector_matches(examining->selector, examining->proc, pid, &container))
        return VALUE_OTHER;
    if (processes_has(&examining->matches->own_list, pid))
        return VALUE_OWN;
    if (target)
        send_match(examining, target, &container);
    if (examining->line)
        pool_mark(examining->line, VALUE_MATCHES);
    code = census_look(examining->census, examining->proc, pid, &entry, &fault);
    if (target && target_check(target, NULL) != FAULT_NONE)
        return VALUE_OTHER;
    if (code == FAULT_NONE)
        send_found(examining, &entry);
    else if (code == FAULT_INTERNAL || code == FAULT_UNSUPPORTED)
        send_fault(examining, &fault);
    return code == FAULT_NONE ? VALUE_FOUND : code;
}

/*
 * An own process that is listed by the selector is left to the tool: yama lets nobody
 * read his parent.
 */
static int perform_examination(void *ctx, size_t item, struct pool_line *line)
{
    struct examining *examining = ctx;
    pid_t pid = examining->examination->list[item].pid;
    struct target target;
    int value = VALUE_OTHER;

    if (line && pid == examining->self)
        return VALUE_SELF;
    examining->line = line;
    examining->item = item;
    if (line)
        census_on_file(examining->census, send_file, examining);
    if (examining->selector->at)
        *examining->selector->at = pid;
    if (!examining->pin)
        return examine_process(examining, pid, NULL);
    if (target_open(&target, examining->proc, pid, NULL) == FAULT_NONE)
        value = examine_process(examining, pid, &target);
    target_close(&target);
    return value;
}

/* ---- the whole ---- */

/* Sets what an answer says of a process; records that belong to it have come before. */
static void settle_examined(struct examined *examined, const struct pool_answer *answer)
{
    examined->end = answer->end;
    examined->begun = answer->begun;
    examined->call = answer->call;
    examined->signal = answer->signal;
    examined->matches = answer->value == VALUE_MATCHES;
    if (answer->end == POOL_LATE) {
        examined->as = EXAMINED_NOT;
    } else if (answer->end != POOL_DONE || answer->value == VALUE_NONE ||
               answer->value == VALUE_MATCHES || answer->value == VALUE_SELF ||
               (answer->value == VALUE_FOUND && !examined->found)) {
        examined->end = answer->end == POOL_DONE ? POOL_LOST : answer->end;
        examined->as = EXAMINED_GIVEN_UP;
    } else if (answer->value == VALUE_OTHER || answer->value == VALUE_OWN) {
        examined->as = answer->value == VALUE_OWN ? EXAMINED_OWN : EXAMINED_OTHER;
    } else {
        examined->as = EXAMINED_MATCH;
        examined->matches = true;
        examined->code = answer->value == VALUE_FOUND ? FAULT_NONE : answer->value;
        if (examined->odd)
            examined->odd->fault.code = examined->code;
    }
}

static fault_code examine_all(struct examining *examining, const struct deadline *deadline,
                              struct pool_answer *answers, struct fault *fault)
{
    struct examination *examination = examining->examination;
    const struct pool_job job = {.count = examination->count,
                                 .perform = perform_examination,
                                 .receive = receive_examined,
                                 .ctx = examining,
                                 .proc = examining->proc,
                                 .until = deadline ? deadline->at : UINT64_MAX,
                                 .interrupted = deadline ? deadline->interrupted : NULL};
    int err = pool_run(&job, answers);

    if (err)
        return fault_set(fault, FAULT_INTERNAL, err, "start workers", "%zu processes",
                         examination->count);
    for (size_t i = 0; i < examination->count; i++) {
        if (answers[i].value == VALUE_SELF && examination->list[i].pid == examining->self)
            answers[i].value = perform_examination(examining, i, NULL);
        settle_examined(&examination->list[i], &answers[i]);
        const struct examined_fault *odd = examination->list[i].odd;
        if (odd && fault_is_out_of_memory(&odd->fault))
            return fault_set(fault, FAULT_INTERNAL, ENOMEM, "look for jemalloc", "%d",
                             (int)examination->list[i].pid);
    }
    return FAULT_NONE;
}

fault_code examination_run(struct examination *examination, const struct matches *matches,
                           const struct selector *selector, bool pin, struct procfs *proc,
                           struct census *census, const struct deadline *deadline,
                           struct fault *fault)
{
    const struct processes *processes = &matches->processes;
    struct examining *examining = calloc(1, sizeof *examining);
    struct pool_answer *answers = calloc(processes->count + 1, sizeof *answers);
    fault_code rc = FAULT_NONE;
    char self[32];

    *examination = (struct examination){calloc(processes->count + 1, sizeof *examination->list),
                                        processes->count};
    if (!examining || !answers || !examination->list) {
        examination->count = 0;
        rc = fault_set(fault, FAULT_INTERNAL, ENOMEM, "list processes", "/proc");
    } else {
        for (size_t i = 0; i < processes->count; i++)
            examination->list[i] = (struct examined){.pid = processes->list[i], .pin.pidfd = -1};
        *examining = (struct examining){.examination = examination,
                                        .matches = matches,
                                        .selector = selector,
                                        .pin = pin,
                                        .proc = proc,
                                        .census = census};
        if (procfs_readlink(proc, self, sizeof self, "self") > 0)
            examining->self = (pid_t)atoi(self);
        rc = examine_all(examining, deadline, answers, fault);
    }
    free(examining);
    free(answers);
    return rc;
}

void examination_free(struct examination *examination)
{
    for (size_t i = 0; i < examination->count; i++) {
        target_pin_close(&examination->list[i].pin);
        free(examination->list[i].found);
        free(examination->list[i].odd);
    }
    free(examination->list);
    memset(examination, 0, sizeof *examination);
}
