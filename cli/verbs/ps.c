/* jeattach ps */
#include "attach/permit.h"
#include "base/interruptions.h"
#include "base/list.h"
#include "cli/choose.h"
#include "cli/faults.h"
#include "cli/message.h"
#include "cli/output/attachment_json.h"
#include "cli/output/process_table.h"
#include "cli/output/stdout.h"
#include "cli/verbs/verbs.h"
#include "host/selector.h"
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
    bool capable;              /* the tool has the capabilities to read any process */
    size_t looked, unreadable; /* processes: read, refused */
    struct left_out *left;     /* given up, or begun and not examined in time */
    size_t left_count, left_capacity;
    size_t late;       /* not examined in time */
    volatile pid_t at; /* the process that is read, if no worker does that */
    const struct procfs *proc;
    char refused[PROCESS_TEXT]; /* the first process that was refused: "sshd[4242]" */
};

static fault_code add_entry(struct listing *listing, const struct examined_process *found,
                            struct fault *fault)
{
    const struct census_entry *entry = &found->entry;
    const struct container *container = &found->container;
    struct json *json = &listing->json;

    listing->count++;
    if (!listing->options->json)
        return process_table_add(&listing->table, entry, container, false)
                   ? FAULT_NONE
                   : fault_set(fault, FAULT_INTERNAL, ENOMEM, "list processes", "out of memory");
    JSON_ITEM(json, NUMBER("pid", entry->stat.pid), NUMBER("ns_pid", entry->status.ns_pid),
              TEXT("name", entry->stat.comm), TEXT("module", entry->path),
              TEXT("prefix", entry->prefix), TEXT_OR_NULL("linkage", linkage_text(entry->linkage)),
              TEXT_OR_NULL("version", entry->prof.build.text),
              TEXT_OR_NULL("prof", prof_text(&entry->prof)),
              FACT("config.prof", entry->prof.build.config_prof),
              FACT("opt.prof", entry->prof.build.opt_prof),
              FACT("prof.active", entry->prof.prof_active), NUMBER("rss", entry->status.rss_bytes),
              TEXT_OR_NULL("engine", container->engine), TEXT_OR_NULL("container", container->id),
              TEXT_OR_NULL("pod", container->pod));
    return FAULT_NONE;
}

/* Counts the result of one process, and lists it if it uses jemalloc. */
static fault_code take_process(struct listing *listing, const struct examined *examined,
                               struct fault *fault)
{
    const fault_code code = examined->code;
    struct left_out described;

    if (examined->as == EXAMINED_NOT)
        listing->late++;
    if (examined->as == EXAMINED_GIVEN_UP || (examined->as == EXAMINED_NOT && examined->begun)) {
        if (!LIST_GROW(listing->left, listing->left_capacity, listing->left_count))
            return fault_set(fault, FAULT_INTERNAL, ENOMEM, "list processes", "out of memory");
        listing->left[listing->left_count++] = left_out_describe(examined, listing->proc);
        return FAULT_NONE;
    }
    if (examined->as != EXAMINED_MATCH)
        return FAULT_NONE;
    listing->looked += code == FAULT_NONE || code == FAULT_NO_ALLOCATOR || code == FAULT_DENIED;
    listing->unreadable += code == FAULT_DENIED;
    if (code == FAULT_DENIED && listing->unreadable == 1) {
        described = left_out_describe(examined, listing->proc);
        message_process(described.name, (int)examined->pid, listing->refused);
    }
    /* A reason that is not usual. */
    if ((code == FAULT_INTERNAL || code == FAULT_UNSUPPORTED) && examined->odd) {
        described = left_out_describe(examined, listing->proc);
        const struct subject subject = {.verb = "examine process",
                                        .pid = (int)examined->pid,
                                        .name = described.name[0] ? described.name : NULL};
        message_fault(&subject, &examined->odd->fault);
    }
    return examined->found ? add_entry(listing, examined->found, fault) : FAULT_NONE;
}

/* Counts the processes that were given up or not examined in time; those begun are in both. */
static size_t count_left(const struct listing *listing)
{
    size_t left = listing->late;

    for (size_t i = 0; i < listing->left_count; i++)
        left += listing->left[i].end != POOL_LATE;
    return left;
}

static void print_all(struct listing *listing)
{
    if (!listing->options->json) {
        process_table_print(&listing->table, stdout);
        return;
    }
    json_list_end(&listing->json);
    JSON_MEMBERS(&listing->json, NUMBER("looked_at", listing->looked),
                 NUMBER("unreadable", listing->unreadable),
                 NUMBER("left_out", count_left(listing)));
    left_out_json(&listing->json, listing->left, listing->left_count);
    json_end(&listing->json);
}

static void print_ps_notes(const struct listing *listing)
{
    const size_t unreadable = listing->unreadable, others = listing->looked - unreadable;
    const char *refusal = geteuid() == 0 ? ": root lacks CAP_SYS_PTRACE here" : ": run as root";

    /* A security module (Landlock, SELinux, ...) may refuse what ptrace(2) permits. */
    if (listing->capable)
        refusal = " despite CAP_SYS_PTRACE: a kernel security module forbids it, or jeattach is in "
                  "another user namespace";
    if (unreadable)
        message("%zu of %zu process%s could not be read (%s%s)%s", unreadable, listing->looked,
                listing->looked == 1 ? "" : "es", listing->refused, unreadable == 1 ? "" : ", ...",
                refusal);
    if (listing->count == 0 && !count_left(listing) && !listing->options->quiet) {
        if (unreadable && others == 1)
            message("the other process does not use jemalloc");
        else if (unreadable)
            message("the other %zu processes do not use jemalloc", others);
        else
            message("none of %zu processes uses jemalloc", listing->looked);
    }
    left_out_print(listing->left, listing->left_count);
    if (listing->late)
        message("the list is not complete: %zu processes were not examined in time", listing->late);
}

static fault_code list_all(struct listing *listing, const struct deadline *deadline,
                           struct fault *fault)
{
    struct procfs proc = {.dirfd = -1};
    struct selector selector = choose_selector(listing->options);
    struct matches matches = {0};
    struct examination examination = {0};
    struct census *census = census_new();
    fault_code rc = FAULT_NONE;
    int err = procfs_open(&proc, "/proc");

    if (err || !census)
        rc = fault_set(fault, FAULT_INTERNAL, -err, "open", "/proc");
    listing->capable = permit_tool_is_capable(&proc);
    selector.own_too = true;
    selector.match_later = true;
    selector.at = &listing->at;
    if (rc == FAULT_NONE)
        rc = permit_check_procfs(&proc, fault);
    if (rc == FAULT_NONE)
        rc = selector_list(&selector, &proc, &matches, fault);
    if (rc == FAULT_NONE && listing->options->json) {
        json_begin(&listing->json, stdout);
        json_list_begin(&listing->json, "processes");
    }
    listing->proc = &proc;
    if (rc == FAULT_NONE)
        rc = examination_run(&examination, &matches, &selector, false, &proc, census, deadline,
                             fault);
    for (size_t i = 0; i < examination.count && rc == FAULT_NONE; i++)
        rc = take_process(listing, &examination.list[i], fault);
    examination_free(&examination);
    matches_free(&matches);
    procfs_close(&proc);
    census_free(census);
    return rc;
}

/*
 * A list that was cut short is printed, but is not a success. One that lacks only
 * processes that were given up is: one of them may be anybody's.
 */
static int finish_ps(struct listing *listing, const struct deadline *deadline, fault_code rc,
                     struct fault *fault)
{
    const struct subject subject = {.verb = "list processes", .json = listing->options->json};

    if (rc == FAULT_NONE) {
        print_all(listing);
        print_ps_notes(listing);
        rc = stdout_check(fault);
    }
    if (rc != FAULT_NONE) {
        if (listing->json.out && fault->code != FAULT_OUTPUT) { /* the object was begun */
            json_list_end(&listing->json);
            json_end(&listing->json);
        }
        return message_fault(&subject, fault);
    }
    if (!listing->late)
        return EXIT_DONE;
    return deadline_interrupted(deadline) ? EXIT_INTERRUPTED : EXIT_NO_SAFE_POINT;
}

/* Called by the stall guard, where no worker could be started. */
static int print_list_stalled(void *ctx, const struct fault *fault)
{
    struct listing *listing = ctx;
    const struct subject subject = {.verb = "examine process", .pid = (int)listing->at};
    int code = message_fault(&subject, fault);

    print_all(listing);
    fflush(stdout);
    return code;
}

static int ps_main(const struct options *options, pid_t pid)
{
    struct listing listing = {.options = options};
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
    free(listing.left);
    return code;
}

const struct verb verb_ps = {
    .name = "ps",
    .summary = "list the processes on this host that use jemalloc",
    .synopses = {"[options]"},
    .examples = {{"jeattach", "all processes that use jemalloc"},
                 {"jeattach ps -n redis-server", "those of that name"},
                 {"jeattach ps --container 4f1c --json", "those of a container, for a script"}},
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
             "read are counted on stderr; root can read all. Processes whose memory or\n"
             "files do not respond are left out and named on stderr.\n",
    .options =
        {
            {"timeout", NULL, "time limit for the whole list (default 30s)"},
            {"quiet", NULL, "suppress the messages on stderr"},
        },
    .run = ps_main,
};
