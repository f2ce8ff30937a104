#include "cli/output/process_table.h"
#include "base/list.h"
#include "base/units.h"
#include "cli/message.h"
#include "host/task.h"
#include "inject/syscalls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_SHOWN = 12 };

static const char *const headings[TABLE_COLUMNS] = {"PID",     "NSPID",   "NAME",   "JEMALLOC",
                                                    "LINKAGE", "PROF",    "RSS",    "CONTAINER",
                                                    "UID",     "STARTED", "COMMAND"};

const char *linkage_text(enum linkage linkage)
{
    static const char *const texts[] = {
        [LINKAGE_UNKNOWN] = NULL,
        [LINKAGE_SHARED] = "shared",
        [LINKAGE_PRELOADED] = "preloaded",
        [LINKAGE_STATIC] = "static",
    };
    return texts[linkage];
}

const char *prof_text(const struct prof_state *state)
{
    if (state->build.config_prof == FACT_NO)
        return "absent";
    if (state->build.opt_prof == FACT_NO)
        return "disabled";
    if (state->build.opt_prof == FACT_UNKNOWN)
        return NULL;
    if (state->prof_active == FACT_UNKNOWN)
        return "enabled";
    return state->prof_active == FACT_YES ? "active" : "inactive";
}

/* Shortens an id, but not the name of a machine. */
static void format_container(const struct container *container, char *out, size_t size)
{
    char clean[CONTAINER_ID_LEN + 1];
    bool is_id = strlen(container->id) == CONTAINER_ID_LEN;

    if (container->engine)
        snprintf(out, size, "%s/%.*s", container->engine, is_id ? ID_SHOWN : CONTAINER_ID_LEN,
                 message_clean(container->id, clean, sizeof clean));
    if (container->pod[0])
        snprintf(out + strlen(out), size - strlen(out), "%spod/%s", out[0] ? " " : "",
                 container->pod);
    if (!out[0])
        snprintf(out, size, "-");
}

bool process_table_add(struct process_table *table, const struct census_entry *entry,
                       const struct container *container, bool unreadable)
{
    const char *prof = prof_text(&entry->prof), *linkage = linkage_text(entry->linkage);
    char version[32], prefix[PREFIX_MAX];
    struct table_row *row;

    if (!LIST_GROW(table->rows, table->capacity, table->count))
        return false;
    row = &table->rows[table->count++];
    memset(row, 0, sizeof *row);
    snprintf(row->cells[0], CELL_MAX, "%d", entry->stat.pid);
    snprintf(row->cells[1], CELL_MAX, "%d", entry->status.ns_pid);
    message_clean(entry->stat.comm, row->cells[2], CELL_MAX);
    /* "5.3.0 _rjem_": the release is the part before the hyphen; the rest names a commit. */
    message_clean(entry->prof.build.text, version, sizeof version);
    version[strcspn(version, "-")] = '\0';
    snprintf(row->cells[3], CELL_MAX, "%s%s%s", version[0] ? version : "?",
             entry->prefix[0] ? " " : "", message_clean(entry->prefix, prefix, sizeof prefix));
    snprintf(row->cells[4], CELL_MAX, "%s", linkage && !unreadable ? linkage : "?");
    snprintf(row->cells[5], CELL_MAX, "%s", prof && !unreadable ? prof : "?");
    units_bytes((double)entry->status.rss_bytes, row->cells[6]);
    format_container(container, row->cells[7], CELL_MAX);
    return true;
}

bool process_table_add_choice(struct process_table *table, const struct selected *selected,
                              const char *command)
{
    struct table_row *row;
    char age[UNITS_TEXT];

    table->choice = true;
    if (!process_table_add(table, &selected->entry, &selected->container, selected->unreadable))
        return false;
    row = &table->rows[table->count - 1];
    if (selected->without) {
        snprintf(row->cells[3], CELL_MAX, "none");
        snprintf(row->cells[4], CELL_MAX, "-");
        snprintf(row->cells[5], CELL_MAX, "-");
    }
    snprintf(row->cells[8], CELL_MAX, "%u", selected->entry.status.uid);
    snprintf(row->cells[9], CELL_MAX, "%s ago",
             units_duration(process_age_ns(&selected->entry.stat), age));
    message_clean(command, row->cells[10], CELL_MAX);
    return true;
}

void process_table_print(const struct process_table *table, FILE *out)
{
    const size_t columns = table->choice ? TABLE_COLUMNS : LIST_COLUMNS;
    size_t widths[TABLE_COLUMNS];

    for (size_t c = 0; c < TABLE_COLUMNS; c++) {
        widths[c] = strlen(headings[c]);
        for (size_t i = 0; i < table->count; i++) {
            size_t n = strlen(table->rows[i].cells[c]);
            widths[c] = n > widths[c] ? n : widths[c];
        }
    }
    for (size_t i = 0; i <= table->count; i++)
        for (size_t c = 0; c < columns; c++) {
            const char *cell = i == 0 ? headings[c] : table->rows[i - 1].cells[c];
            bool right = c < 2 || c == 6 || c == 8; /* the numbers */
            fprintf(out, "%*s%s",
                    c == columns - 1 ? 0
                    : right          ? (int)widths[c]
                                     : -(int)widths[c],
                    cell, c == columns - 1 ? "\n" : "  ");
        }
}

void process_table_free(struct process_table *table)
{
    free(table->rows);
    memset(table, 0, sizeof *table);
}

/* ---- processes that were left out ---- */

enum { LINES_MAX = 20 };

static void format_why(const struct left_out *left, char *out, size_t size)
{
    const char *call = syscall_name(left->call);
    const char *name = left->signal ? sigabbrev_np(left->signal) : NULL;

    switch (left->end) {
    case POOL_STUCK:
        snprintf(out, size,
                 "its memory or its files do not respond: the kernel waits in %s (userfaultfd, "
                 "FUSE, NFS)",
                 call ? call : "a system call");
        break;
    case POOL_SLOW:
        snprintf(out, size, "its data take too long to read");
        break;
    case POOL_LATE:
        snprintf(out, size, "the time was over while it was examined");
        break;
    default:
        snprintf(out, size, "the worker process that examined it was killed%s%s",
                 name ? " by SIG" : "", name ? name : "");
        break;
    }
}

void left_out_print(const struct left_out *left, size_t count)
{
    size_t printed = 0, rest = 0;
    char why[160], clean[64];

    for (size_t i = 0; i < count; i++) {
        if (left[i].chosen) /* the verb itself says so */
            continue;
        rest += printed == LINES_MAX;
        if (printed == LINES_MAX)
            continue;
        printed++;
        format_why(&left[i], why, sizeof why);
        message("process %d (%s) was left out: %s", (int)left[i].pid,
                message_clean(left[i].name[0] ? left[i].name : "?", clean, sizeof clean), why);
    }
    if (rest)
        message("%zu more process%s left out", rest, rest == 1 ? " was" : "es were");
}

void left_out_json(struct json *json, const struct left_out *left, size_t count)
{
    static const char *const reasons[] = {
        [POOL_LATE] = "late",
        [POOL_STUCK] = "no_answer",
        [POOL_SLOW] = "slow",
        [POOL_LOST] = "lost",
    };

    json_list_begin(json, "left_out_processes");
    for (size_t i = 0; i < count; i++)
        JSON_ITEM(json, NUMBER("pid", left[i].pid), TEXT("name", left[i].name),
                  TEXT("reason", reasons[left[i].end]));
    json_list_end(json);
}
