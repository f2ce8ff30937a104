/* jeattach ps */
#include "attach/deadline.h"
#include "attach/permit.h"
#include "cli/choose.h"
#include "cli/faults.h"
#include "cli/message.h"
#include "cli/output/facts_json.h"
#include "cli/output/process_table.h"
#include "cli/output/stdout.h"
#include "cli/verbs/verbs.h"
#include "host/selector.h"
#include "host/task.h"
#include "jemalloc/census.h"
#include "run/interrupt.h"
#include "run/stall_guard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct listing {
    const struct options *options;
    struct json json;
    struct process_table table; /* unused with --json, which is written at once */
    size_t count;
    bool capable;                    /* the tool has the capabilities to read any process */
    size_t looked, unreadable, left; /* processes: read, refused, not reached in time */
    struct subject subject;          /* the process that is being read */
    struct procfs *proc;             /* NULL: not open */
    char name[64];                   /* of that process, for messages */
    char refused[96];                /* the first process that was refused: "sshd[4242]" */
};

static void add_json(struct listing *listing, const struct census_entry *entry,
                     const struct container *container)
{
    struct json *json = &listing->json;

    json_item_begin(json);
    json_number(json, "pid", (uint64_t)entry->stat.pid);
    json_number(json, "ns_pid", (uint64_t)entry->status.ns_pid);
    json_text(json, "name", entry->stat.comm);
    json_text(json, "module", entry->path);
    json_text(json, "prefix", entry->prefix);
    json_text_or_null(json, "linkage", linkage_text(entry->linkage));
    json_text_or_null(json, "version", entry->prof.build.text);
    json_text_or_null(json, "prof", prof_text(&entry->prof));
    facts_json(json, "config.prof", entry->prof.build.config_prof);
    facts_json(json, "opt.prof", entry->prof.build.opt_prof);
    facts_json(json, "prof.active", entry->prof.prof_active);
    json_number(json, "rss", entry->status.rss_bytes);
    json_text_or_null(json, "engine", container->engine);
    json_text_or_null(json, "container", container->id);
    json_text_or_null(json, "pod", container->pod);
    json_item_end(json);
}

static fault_code add_entry(struct listing *listing, const struct procfs *proc,
                            const struct census_entry *entry, struct fault *fault)
{
    struct container container;

    listing->count++;
    (void)container_read(proc, entry->stat.pid, &container);
    if (listing->options->json)
        add_json(listing, entry, &container);
    else if (!process_table_add(&listing->table, entry, &container, false))
        return fault_set(fault, FAULT_INTERNAL, 0, "list processes", "out of memory");
    return FAULT_NONE;
}

/* Names the process that is being read, for a message about it. */
static void name_listed(struct listing *listing)
{
    struct proc_stat stat;

    if (!listing->proc || process_stat(listing->proc, listing->subject.pid, &stat) < 0)
        return;
    memcpy(listing->name, stat.comm, sizeof listing->name);
    listing->subject.name = listing->name;
}

static void note_refused(struct listing *listing)
{
    char clean[64];

    name_listed(listing);
    snprintf(listing->refused, sizeof listing->refused, "%s[%d]",
             message_clean(listing->name, clean, sizeof clean), listing->subject.pid);
}

/*
 * Counts the result of reading one process. Only a lack of memory of the tool
 * itself ends the list.
 */
static fault_code count(struct listing *listing, fault_code code, const struct fault *fault)
{
    if (code != FAULT_NONE && fault_is_out_of_memory(fault))
        return code;
    bool odd = code == FAULT_INTERNAL || code == FAULT_UNSUPPORTED;
    listing->looked += code == FAULT_NONE || code == FAULT_NO_ALLOCATOR || code == FAULT_DENIED;
    listing->unreadable += code == FAULT_DENIED;
    if (code == FAULT_DENIED && listing->unreadable == 1)
        note_refused(listing);
    if (odd) {
        name_listed(listing);
        message_fault(&listing->subject, fault);
    }
    return FAULT_NONE;
}

static fault_code look_at_all(struct listing *listing, struct census *census, struct procfs *proc,
                              const struct processes *processes, const struct deadline *deadline,
                              struct fault *fault)
{
    struct census_entry entry;
    fault_code rc = FAULT_NONE;

    for (size_t i = 0; i < processes->count && rc == FAULT_NONE; i++) {
        listing->left = processes->count - i;
        listing->subject.pid = processes->list[i];
        listing->subject.name = NULL;
        if (deadline_interrupted(deadline) || deadline_passed(deadline))
            return rc;
        fault_code code = census_look(census, proc, processes->list[i], &entry, fault);
        rc = count(listing, code, fault);
        if (code == FAULT_NONE)
            rc = add_entry(listing, proc, &entry, fault);
    }
    listing->left = 0;
    return rc;
}

static void print_all(struct listing *listing)
{
    if (!listing->options->json) {
        process_table_print(&listing->table, stdout);
        return;
    }
    json_list_end(&listing->json);
    json_number(&listing->json, "looked_at", listing->looked);
    json_number(&listing->json, "unreadable", listing->unreadable);
    json_number(&listing->json, "left_out", listing->left);
    json_end(&listing->json);
}

/* A security module (Landlock, SELinux, ...) may refuse what ptrace(2) permits. */
static const char *ps_refusal_text(const struct listing *listing)
{
    if (listing->capable)
        return " despite CAP_SYS_PTRACE: a kernel security module forbids it, or jeattach is in "
               "another user namespace";
    return geteuid() == 0 ? ": root lacks CAP_SYS_PTRACE here" : ": run as root";
}

static void print_none(size_t looked, size_t unreadable)
{
    size_t rest = looked - unreadable;

    if (unreadable && rest == 1)
        message("the other process does not use jemalloc");
    else if (unreadable)
        message("the other %zu processes do not use jemalloc", rest);
    else
        message("none of %zu processes uses jemalloc", looked);
}

static void print_ps_notes(const struct listing *listing)
{
    if (listing->unreadable)
        message("%zu of %zu process%s could not be read (%s%s)%s", listing->unreadable,
                listing->looked, listing->looked == 1 ? "" : "es", listing->refused,
                listing->unreadable == 1 ? "" : ", ...", ps_refusal_text(listing));
    if (listing->count == 0 && !listing->left && !listing->options->quiet)
        print_none(listing->looked, listing->unreadable);
    if (listing->left)
        message("the list is not complete: the last %zu processes were not examined in time",
                listing->left);
}

static fault_code list_all(struct listing *listing, const struct deadline *deadline,
                           struct fault *fault)
{
    struct procfs proc = {.dirfd = -1};
    struct selector selector = choose_selector(listing->options);
    struct matches matches = {0};
    struct census *census = census_new();
    fault_code rc = FAULT_NONE;
    int err = procfs_open(&proc, "/proc");

    if (err || !census)
        rc = fault_set(fault, FAULT_INTERNAL, -err, "open", "/proc");
    listing->proc = err ? NULL : &proc;
    listing->capable = permit_tool_is_capable(&proc);
    selector.own_too = true;
    if (rc == FAULT_NONE)
        rc = permit_check_procfs(&proc, fault);
    if (rc == FAULT_NONE)
        rc = selector_list(&selector, &proc, &matches, fault);
    if (rc == FAULT_AMBIGUOUS) /* a list may cover several containers */
        rc = FAULT_NONE;
    if (rc == FAULT_NONE && listing->options->json) {
        json_begin(&listing->json, stdout);
        json_list_begin(&listing->json, "processes");
    }
    if (rc == FAULT_NONE)
        rc = look_at_all(listing, census, &proc, &matches.processes, deadline, fault);
    matches_free(&matches);
    listing->proc = NULL;
    procfs_close(&proc);
    census_free(census);
    return rc;
}

/* Ends the JSON object, if one was begun, before the error. */
static int tell_fault(struct listing *listing, const struct fault *fault)
{
    const struct subject subject = {.verb = "list processes", .json = listing->options->json};

    if (listing->json.out && fault->code != FAULT_OUTPUT) {
        json_list_end(&listing->json);
        json_end(&listing->json);
    }
    return message_fault(&subject, fault);
}

/* A list that was cut short is printed, but is not a success. */
static int finish_ps(struct listing *listing, const struct deadline *deadline, fault_code rc,
                     struct fault *fault)
{
    if (rc == FAULT_NONE) {
        print_all(listing);
        print_ps_notes(listing);
        rc = stdout_check(fault);
    }
    if (rc != FAULT_NONE)
        return tell_fault(listing, fault);
    if (!listing->left)
        return EXIT_DONE;
    return deadline_interrupted(deadline) ? EXIT_INTERRUPTED : EXIT_NO_SAFE_POINT;
}

/* Called by the stall guard: prints the processes found so far. */
static int print_list_stalled(void *ctx, const struct fault *fault)
{
    struct listing *listing = ctx;

    name_listed(listing);
    int code = message_fault(&listing->subject, fault);

    print_all(listing);
    print_ps_notes(listing);
    fflush(stdout);
    return code;
}

static int ps_main(const struct options *options, pid_t pid)
{
    struct listing listing = {.options = options, .subject.verb = "examine process"};
    const struct stall_guard_case what = {.stalled = print_list_stalled, .ctx = &listing};
    struct stall_guard stall_guard;
    struct deadline deadline = {0};
    struct fault fault = {0};
    fault_code rc = deadline_start(&deadline, options->timeout_ns, interrupt_flag(), &fault);

    (void)pid;
    stall_guard_start(&stall_guard, options->timeout_ns, &what);
    if (rc == FAULT_NONE)
        rc = list_all(&listing, &deadline, &fault);
    int code = finish_ps(&listing, &deadline, rc, &fault);
    stall_guard_stop(&stall_guard);
    deadline_stop(&deadline);
    process_table_free(&listing.table);
    return code;
}

const struct verb verb_ps = {
    .name = "ps",
    .summary = "list the processes on this host that use jemalloc",
    .synopses = {"[options]"},
    .takes = TAKES_HOST,
    .intro = "Lists the processes on this host that use jemalloc, including those in\n"
             "containers. Stops nothing and calls nothing. Values that cannot be read from\n"
             "outside are shown as ?.\n"
             "\n"
             "  PID        as seen from here\n"
             "  NSPID      as seen by the process itself, in its own pid namespace\n"
             "  JEMALLOC   version, and the prefix of its functions if there is one\n"
             "  LINKAGE    shared, preloaded (LD_PRELOAD), static (linked into a program)\n"
             "  PROF       active, inactive (can be switched on), enabled (either of these),\n"
             "             disabled (opt.prof is false), absent (built without profiling)\n"
             "  RSS        resident memory\n"
             "  CONTAINER  engine and id, and the pod, from the names of its cgroups\n"
             "\n"
             "The exit code is 0 even if no process uses jemalloc. Processes that cannot be\n"
             "read are counted on stderr; root can read all.\n",
    .options =
        {
            {"timeout", NULL, "time limit for the whole list (default 30s)"},
            {"quiet", NULL, "suppress the messages on stderr"},
        },
    .run = ps_main,
};
