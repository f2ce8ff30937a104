#include "cli/choose.h"
#include "cli/message.h"
#include "cli/output/process_table.h"
#include "run/faults.h"
#include "run/stall_guard.h"

#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 512 };

struct selector choose_selector(const struct options *options)
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

static void append_option(char *out, const char *option, const char *value)
{
    char clean[256];
    size_t used = strlen(out);

    if (value)
        snprintf(out + used, WORDS_MAX - used, "%s%s%s%s", used ? " " : "", option,
                 *value ? " " : "", message_clean(value, clean, sizeof clean));
}

/* "-n redis-server --container 4f1c": the selection as it was written. */
static const char *format_selection(const struct options *options, char *out)
{
    char pids[64] = "";

    for (size_t i = 0; i < options->pid_count && strlen(pids) < 40; i++)
        snprintf(pids + strlen(pids), sizeof pids - strlen(pids), "%s%d", i ? " " : "",
                 (int)options->pids[i]);
    out[0] = '\0';
    append_option(out, "-n", options->name);
    append_option(out, "--container", options->container);
    append_option(out, "--cgroup", options->cgroup);
    append_option(out, "-s", options->subprocesses ? pids : NULL);
    append_option(out, "--all", options->all ? "" : NULL);
    return out;
}

static const char *plural_es(size_t n)
{
    return n == 1 ? "" : "es";
}

static void format_no_match(const struct selection *selection, const struct selector *selector,
                            char *out, size_t size)
{
    if (selection->matched)
        snprintf(out, size, "%zu of %zu process%s match%s, but %s jemalloc", selection->matched,
                 selection->looked, plural_es(selection->looked),
                 selection->matched == 1 ? "es" : "",
                 selection->matched == 1 ? "does not use" : "do not use");
    else
        snprintf(out, size, "none of %zu process%s matches", selection->looked,
                 plural_es(selection->looked));
    if (selection->own)
        snprintf(out + strlen(out), size - strlen(out),
                 "; %zu that started this jeattach can be chosen only by PID", selection->own);
    if (!selection->matched && selector->container &&
        strlen(selector->container) < CONTAINER_PREFIX_MIN)
        snprintf(out + strlen(out), size - strlen(out), "; a container id needs at least %d digits",
                 CONTAINER_PREFIX_MIN);
}

/* Describes the object of the fault, to complete the sentences of cli/message.c. */
static void describe_choice_fault(const struct selection *selection,
                                  const struct selector *selector, struct fault *fault)
{
    const struct container *first = &selection->containers[0], *second = first + 1;
    char *what = fault->what;

    switch (fault->code) {
    case FAULT_NO_MATCH:
        format_no_match(selection, selector, what, sizeof fault->what);
        break;
    case FAULT_AMBIGUOUS:
        if (strcmp(first->id, second->id) == 0)
            snprintf(what, sizeof fault->what,
                     "several users have made a cgroup of %s/%.64s: uid %d and uid %d",
                     first->engine, first->id, (int)first->owner, (int)second->owner);
        else
            snprintf(what, sizeof fault->what, "several ids start with it: %s/%.64s, %s/%.64s",
                     first->engine, first->id, second->engine, second->id);
        break;
    case FAULT_DENIED:
        snprintf(what, sizeof fault->what, "reading %zu matching process%s", selection->unreadable,
                 plural_es(selection->unreadable));
        break;
    case FAULT_NO_ALLOCATOR:
        snprintf(what, sizeof fault->what, "modules (%zu processes match)", selection->without);
        break;
    case FAULT_SEVERAL:
        snprintf(what, sizeof fault->what, "%zu processes", selection->count);
        break;
    default:
        break;
    }
}

/* Reads the arguments of a process, separated by blanks; none: out is "-". */
static const char *read_command(const struct procfs *proc, pid_t pid, char *out, size_t size)
{
    ssize_t n = procfs_read(proc, out, size, "%d/cmdline", (int)pid);

    while (n > 0 && !out[n - 1])
        n--;
    for (ssize_t i = 0; i < n; i++)
        out[i] = out[i] ? out[i] : ' ';
    if (n <= 0)
        snprintf(out, size, "-");
    return out;
}

/*
 * Lists the matching processes after the message. The arguments are in the memory of each, which
 * may not respond: of those that were given up they are not read, and the guard ends the rest.
 */
static void print_several(const struct selection *selection, const struct targets_request *request)
{
    const struct stall_guard_case stall = {.stalled = request->stalled, .ctx = request->ctx};
    struct procfs proc = {.dirfd = -1};
    struct process_table table = {0};
    struct stall_guard stall_guard;
    char command[64];

    (void)procfs_open(&proc, "/proc");
    stall_guard_start(&stall_guard, request->timeout_ns, &stall);
    for (size_t i = 0; i < selection->count; i++) {
        const struct selected *selected = &selection->list[i];
        bool left = false;
        for (size_t k = 0; k < selection->left_count; k++)
            left |= selection->left[k].pid == selected->pin.pid;
        *request->selector.at = selected->pin.pid;
        (void)process_table_add_choice(
            &table, selected,
            left ? "-" : read_command(&proc, selected->pin.pid, command, sizeof command));
    }
    stall_guard_stop(&stall_guard);
    procfs_close(&proc);
    process_table_print(&table, stderr);
    process_table_free(&table);
}

/* The data that the stall guard reports about a search. */
struct stalled_search {
    const struct subject *subject;
    const volatile pid_t *at;
};

static int print_search_stalled(void *ctx, const struct fault *fault)
{
    const struct stalled_search *search = ctx;
    int code = message_fault(search->subject, fault);

    message("it was reading process %d", (int)*search->at);
    fflush(stdout);
    return code;
}

static int choose_by_search(struct targets *targets, const struct options *options, unsigned takes)
{
    char words[WORDS_MAX];
    volatile pid_t at = 0;
    struct subject subject = {.verb = "find",
                              .name = format_selection(options, words),
                              .json = options->json,
                              .any_allocator = takes & TAKES_ANY};
    struct stalled_search stalled = {&subject, &at};
    struct targets_request request = {.search = true,
                                      .selector = choose_selector(options),
                                      .any_allocator = takes & TAKES_ANY,
                                      .sampling = takes & TAKES_SAMPLING,
                                      .several = options->all || options->subprocesses,
                                      .timeout_ns = options->timeout_ns,
                                      .stalled = print_search_stalled,
                                      .ctx = &stalled};
    const struct selection *selection = &targets->selection;
    const struct container *container = &selection->containers[0];
    struct fault fault;
    int code;

    request.selector.at = &at;
    if (targets_find(targets, &request, &fault) != FAULT_NONE) {
        describe_choice_fault(selection, &request.selector, &fault);
        code = message_fault(&subject, &fault);
        if (fault.code == FAULT_SEVERAL)
            print_several(selection, &request);
        left_out_print(selection->left, selection->left_count);
        return code;
    }

    /* Of those that may not be read, without -n it is unknown whether they use jemalloc. */
    left_out_print(selection->left, selection->left_count);
    if (selection->unreadable && !options->name)
        message("%zu matching process%s could not be read and %s left out", selection->unreadable,
                plural_es(selection->unreadable), selection->unreadable == 1 ? "was" : "were");
    /* A user who makes cgroups chooses their names. */
    if (!options->quiet && container->engine && container->owner &&
        container->owner != CONTAINER_NO_OWNER && container->owner != geteuid())
        message("the cgroup of %s/%.12s was made by uid %d, who chose its name", container->engine,
                container->id, (int)container->owner);
    return EXIT_DONE;
}

int choose_targets(struct targets *targets, const struct options *options, unsigned takes)
{
    const struct subject subject = {.verb = "examine", .name = "processes", .json = options->json};
    const struct targets_request request = {.pids = options->pids, .pid_count = options->pid_count};
    struct fault fault;

    if (options_selective(options))
        return choose_by_search(targets, options, takes);
    if (targets_find(targets, &request, &fault) != FAULT_NONE)
        return message_fault(&subject, &fault);
    return EXIT_DONE;
}
