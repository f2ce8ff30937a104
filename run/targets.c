#include "run/targets.h"
#include "attach/permit.h"
#include "cli/message.h"
#include "cli/output/process_table.h"
#include "jemalloc/selection.h"
#include "run/faults.h"
#include "run/interrupt.h"
#include "run/stall_guard.h"

#include <errno.h>
#include <string.h>

enum { WORDS_MAX = 512 };

struct selector targets_selector(const struct options *options)
{
    return (struct selector){
        .name = options->name,
        .container = options->container ? container_id(options->container) : NULL,
        .cgroup = options->cgroup,
        .roots = options->pids,
        .root_count = options->subprocesses ? options->pid_count : 0,
    };
}

/* ---- words ---- */

static void add_words(char *out, const char *option, const char *value)
{
    char clean[256];
    size_t used = strlen(out);

    if (value)
        snprintf(out + used, WORDS_MAX - used, "%s%s%s%s", used ? " " : "", option,
                 *value ? " " : "", message_clean(value, clean, sizeof clean));
}

/* "-n redis-server --container 4f1c": what was asked for, as it was written. */
static const char *words_of(const struct options *options, char *out)
{
    char pids[64] = "";

    for (size_t i = 0; i < options->pid_count && strlen(pids) < 40; i++)
        snprintf(pids + strlen(pids), sizeof pids - strlen(pids), "%s%d", i ? " " : "",
                 (int)options->pids[i]);
    out[0] = '\0';
    add_words(out, "-n", options->name);
    add_words(out, "--container", options->container);
    add_words(out, "--cgroup", options->cgroup);
    add_words(out, "-s", options->subprocesses ? pids : NULL);
    add_words(out, "--all", options->all ? "" : NULL);
    return out;
}

static const char *es(size_t n)
{
    return n == 1 ? "" : "es";
}

static bool is_short_id(const char *container)
{
    return container && strlen(container) < CONTAINER_PREFIX_MIN;
}

static void none_text(const struct selection *selection, const struct selector *selector, char *out,
                      size_t size)
{
    if (selection->matched)
        snprintf(out, size, "%zu of %zu process%s match%s, and none of them uses jemalloc",
                 selection->matched, selection->looked, es(selection->looked),
                 selection->matched == 1 ? "es" : "");
    else
        snprintf(out, size, "none of %zu process%s matches", selection->looked,
                 es(selection->looked));
    if (selection->own)
        snprintf(out + strlen(out), size - strlen(out),
                 "; %zu that started this jeattach %s never meant, except by pid", selection->own,
                 selection->own == 1 ? "is" : "are");
    if (!selection->matched && is_short_id(selector->container))
        snprintf(out + strlen(out), size - strlen(out), "; an id needs %d digits",
                 CONTAINER_PREFIX_MIN);
}

static void ambiguous_text(const struct container containers[2], char *out, size_t size)
{
    snprintf(out, size, "several containers begin like that: %s/%.64s, %s/%.64s",
             containers[0].engine, containers[0].id, containers[1].engine, containers[1].id);
}

/* The fault's object, in words that fit those of cli/message.c. */
static void word_fault(const struct selection *selection, const struct selector *selector,
                       struct fault *fault)
{
    char *what = fault->what;

    switch (fault->code) {
    case FAULT_NO_MATCH:
        none_text(selection, selector, what, sizeof fault->what);
        break;
    case FAULT_AMBIGUOUS:
        ambiguous_text(selection->containers, what, sizeof fault->what);
        break;
    case FAULT_DENIED:
        snprintf(what, sizeof fault->what, "to read the %zu process%s that match%s",
                 selection->unreadable, es(selection->unreadable),
                 selection->unreadable == 1 ? "es" : "");
        break;
    case FAULT_NO_ALLOCATOR:
        snprintf(what, sizeof fault->what, "modules, in any of the %zu processes of that name",
                 selection->without);
        break;
    default:
        break;
    }
}

/* ---- the search ---- */

static int tell_several(const struct selection *selection, const struct options *options)
{
    struct process_table table = {0};
    char words[WORDS_MAX];
    const struct subject subject = {
        .verb = "choose for", .name = words_of(options, words), .json = options->json};
    struct fault fault;

    for (size_t i = 0; i < selection->count; i++)
        (void)process_table_add(&table, &selection->list[i].entry, &selection->list[i].container,
                                selection->list[i].unreadable);
    fault_set(&fault, FAULT_SEVERAL, 0, "choose", "%zu processes match; none was touched",
              selection->count);
    (void)message_fault(&subject, &fault);
    process_table_print(&table, stderr);
    process_table_free(&table);
    return EXIT_USAGE;
}

/* Without a name nobody knows whether those use jemalloc at all. */
static void tell_unreadable(const struct selection *selection, const struct options *options)
{
    if (selection->unreadable && !options->name)
        message("%zu matching process%s could not be read and %s left out", selection->unreadable,
                es(selection->unreadable), selection->unreadable == 1 ? "was" : "were");
}

static bool take_pins(struct targets *targets, struct selection *selection)
{
    targets->pins = calloc(selection->count, sizeof *targets->pins);
    for (size_t i = 0; targets->pins && i < selection->count; i++) {
        targets->pins[i] = selection->list[i].pin;
        selection->list[i].pin.pidfd = -1;
        targets->count++;
    }
    return targets->count == selection->count;
}

static fault_code search(struct selection *selection, const struct selector *selector,
                         const struct options *options, struct fault *fault)
{
    struct procfs proc = {.dirfd = -1};
    struct deadline deadline = {0};
    struct census *census = census_new();
    fault_code rc = deadline_start(&deadline, options->timeout_ns, interrupt_flag(), fault);
    int err = procfs_open(&proc, "/proc");

    if (rc == FAULT_NONE && (err || !census))
        rc = fault_set(fault, FAULT_INTERNAL, -err, "open", "/proc");
    if (rc == FAULT_NONE)
        rc = permit_check_procfs(&proc, fault);
    if (rc == FAULT_NONE)
        rc = selection_find(selection, selector, &proc, census, &deadline, fault);
    deadline_stop(&deadline);
    procfs_close(&proc);
    census_free(census);
    return rc;
}

struct stalled_search {
    const struct subject *subject;
    const struct selector *selector;
};

static int print_search_stalled(void *ctx, const struct fault *fault)
{
    const struct stalled_search *search = ctx;
    int code = message_fault(search->subject, fault);

    message("it was looking at process %d", (int)*search->selector->at);
    fflush(stdout);
    return code;
}

static int find_selected(struct targets *targets, const struct options *options)
{
    struct selector selector = targets_selector(options);
    volatile pid_t at = 0;
    struct selection selection = {0};
    struct fault fault;
    char words[WORDS_MAX];
    const struct subject subject = {
        .verb = "find", .name = words_of(options, words), .json = options->json};
    struct stalled_search stalled = {&subject, &selector};
    const struct stall_guard_case what = {.stalled = print_search_stalled, .ctx = &stalled};
    struct stall_guard stall_guard;
    int code = EXIT_DONE;
    fault_code rc;

    selector.at = &at;
    stall_guard_start(&stall_guard, options->timeout_ns, &what);
    rc = search(&selection, &selector, options, &fault);
    stall_guard_stop(&stall_guard);
    if (rc == FAULT_NONE && selection.count > 1 && !options->all && !options->subprocesses)
        code = tell_several(&selection, options);
    else if (rc == FAULT_NONE && !take_pins(targets, &selection))
        rc = fault_set(&fault, FAULT_INTERNAL, ENOMEM, "list processes", "/proc");
    if (rc != FAULT_NONE) {
        word_fault(&selection, &selector, &fault);
        code = message_fault(&subject, &fault);
    }
    if (code == EXIT_DONE)
        tell_unreadable(&selection, options);
    selection_free(&selection);
    return code;
}

/* ---- pids ---- */

static bool is_pinned(const struct targets *targets, pid_t pid)
{
    for (size_t i = 0; i < targets->count; i++)
        if (targets->pins[i].pid == pid)
            return true;
    return false;
}

/* One that is not there now stays so: a process that gets its pid later is not meant. */
static struct target_pin pin_now(struct procfs *proc, pid_t pid)
{
    struct target target;
    struct target_pin pin = {pid, TARGET_NO_START, -1};

    if (target_open(&target, proc, pid, NULL) == FAULT_NONE)
        pin = target_take_pin(&target);
    target_close(&target);
    return pin;
}

static int pin_pids(struct targets *targets, const struct options *options)
{
    const struct subject subject = {.verb = "look at", .name = "processes", .json = options->json};
    struct procfs proc;
    struct fault fault;
    int err = procfs_open(&proc, "/proc");

    targets->pins = err ? NULL : calloc(options->pid_count, sizeof *targets->pins);
    if (!targets->pins) {
        fault_set(&fault, FAULT_INTERNAL, err ? -err : ENOMEM, "open", "/proc");
        return message_fault(&subject, &fault);
    }
    for (size_t i = 0; i < options->pid_count; i++)
        if (!is_pinned(targets, options->pids[i]))
            targets->pins[targets->count++] = pin_now(&proc, options->pids[i]);
    procfs_close(&proc);
    return EXIT_DONE;
}

int targets_find(struct targets *targets, const struct options *options)
{
    memset(targets, 0, sizeof *targets);
    return options_selective(options) ? find_selected(targets, options)
                                      : pin_pids(targets, options);
}

void targets_free(struct targets *targets)
{
    for (size_t i = 0; i < targets->count; i++)
        target_pin_close(&targets->pins[i]);
    free(targets->pins);
    memset(targets, 0, sizeof *targets);
}
