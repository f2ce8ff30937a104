/* jeattach peek */
#include "run/peek/peek.h"
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/attachment_json.h"
#include "cli/output/peek_view.h"
#include "cli/presentation.h"
#include "cli/verbs/core.h"
#include "cli/verbs/verbs.h"

#include <stdio.h>

enum { ROWS_SHOWN = 12 };

/* --rows; in JSON all rows are the default. */
static bool set_peek_rows(const struct options *options, size_t *rows)
{
    *rows = options->json ? SIZE_MAX : ROWS_SHOWN;
    if (!options->report.rows)
        return true;
    if (!presentation_number("--rows", options->report.rows, "rows", rows))
        return false;
    *rows = *rows ? *rows : SIZE_MAX;
    return true;
}

static void print_peek(const struct job *job, const struct peek *peek)
{
    const struct target *target = &job->attachment->target;
    struct peek_view view = {.peek = peek,
                             .name = target->stat.comm,
                             .pid = (int)target->pid,
                             .origin = job->origin,
                             .rows_given = job->options->report.rows != NULL,
                             .show_bytes = job->options->show_bytes};
    struct json json;

    set_peek_rows(job->options, &view.rows);
    if (!job->options->json) {
        peek_print(&view, stdout);
        return;
    }
    attachment_json_begin(job->attachment, &json);
    peek_json(&view, &json);
    json_end(&json);
}

static fault_code perform_peek(struct job *job, void *ctx, struct fault *fault)
{
    struct peek *peek = malloc(sizeof *peek);
    const struct peek_request request = {.samples = job->options->count,
                                         .is_still = job->origin != NULL};
    fault_code rc;

    (void)ctx;
    if (!peek)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "look at the objects", "the sample");
    rc = peek_run(peek, job->attachment, &request, fault);
    if (rc == FAULT_NONE && !job->origin)
        rc = target_check(&job->attachment->target, fault);
    if (rc == FAULT_NONE)
        print_peek(job, peek);
    peek_free(peek);
    free(peek);
    return rc;
}

/* ---- the verb ---- */

static int peek_main(const struct options *options, pid_t pid)
{
    size_t rows;

    if (options->count > PEEK_SAMPLES_MAX) {
        message("--count must be a number from 1 to %d", PEEK_SAMPLES_MAX);
        return EXIT_USAGE;
    }
    if (!set_peek_rows(options, &rows))
        return EXIT_USAGE;
    if (options->core)
        return core_run(options, "look at the objects in core file", perform_peek, NULL);
    return job_run(options, pid, JOB_AS_ASKED, "look at the objects of process", perform_peek,
                   NULL);
}

const struct verb verb_peek = {
    .name = "peek",
    .summary = "show what the objects in the heap are, by a sample",
    .synopses = {"[options] PROCESS...", "--core FILE [--exe FILE] [--root DIR] [options]"},
    .examples = {{"jeattach peek 4242", "what the objects are"},
                 {"jeattach peek core.4242 --rows 0", "all rows, of a process that has died"}},
    .takes = TAKES_PEEK | TAKES_CORE,
    .intro = "Takes a random sample of the live objects, of each size class in proportion to\n"
             "its bytes, and describes them by what they begin with:\n"
             "\n"
             "  class     an object of a C++ class, by the type information of its vtable,\n"
             "            which a stripped program has, too; or of a type of Python\n"
             "  type      another address in a module, such as a table of functions: its\n"
             "            symbol, or MODULE+0xADDRESS\n"
             "  text      and its form: JSON, XML or HTML, URL, path, PEM, digits, hex,\n"
             "            base64, name, words; and the beginnings that many of them share\n"
             "  zeros     all bytes that were looked at\n"
             "  pointers  at least half of its words, to other memory (heap) or into a module\n"
             "  small numbers, random bytes (compressed or encrypted data), other\n"
             "\n"
             "A pattern such as \"73 % p p n 0\" is the commonest one of the first words, and\n"
             "how many begin so: p pointer to memory, m pointer into a module, n small\n"
             "number, 0 zero, x anything else. A text without spaces is a name, one with\n"
             "spaces is words. The numbers of objects are estimates with their margin of\n"
             "error (+-, 95 %), and exact where each object of a size was looked at. Requires\n"
             "jemalloc 5.0 or later, and no profiling. Nothing is called, nothing is stopped,\n"
             "and only pages in memory are read.\n",
    .notes = "A heap holds secrets. Bytes of objects are printed only with --show-bytes: the\n"
             "beginnings that texts of a row share, and the first 32 bytes of three examples.\n"
             "Names of classes, symbols and modules are always shown.\n"
             "\n"
             "An object that a thread keeps for its next allocation (tcache) counts as live:\n"
             "its bytes are those of its former use. At most 256 bytes of an object are looked\n"
             "at, and of one of 4 KiB or more 256 bytes from its middle. An object whose first\n"
             "bytes are not in memory is only counted, below the table.\n",
    .options =
        {
            {"count", NULL, "look at N objects at most (default 20000)"},
            {"rows", NULL, "show at most N rows (default 12, with --json all); 0: all"},
            {"json", NULL, "print the result as JSON; bytes of objects only with --show-bytes"},
        },
    .run = peek_main,
};
