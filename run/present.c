#include "run/present.h"
#include "base/interruptions.h"
#include "base/text.h"
#include "profile/faults.h"
#include "profile/names/code_kind.h"
#include "profile/views/dot.h"
#include "profile/views/flame.h"
#include "profile/views/pprof.h"
#include "profile/views/profile_json.h"
#include "profile/views/symbolized.h"
#include "profile/views/top.h"
#include "profile/views/tree.h"
#include "run/faults.h"
#include "run/graphviz.h"
#include "run/interrupt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MISSING_REPORTED = 5,
    UNREAD_REPORTED = 20,
    NAMELESS_PART = 100, /* of the memory: less needs no word */
    SLOW_NS = 1000000000,
};
#define WRITE_NS 2000000000ull /* for writing, after the time for names */

void presentation_free(struct presentation *presentation)
{
    while (presentation->regex_count > 0)
        regfree(&presentation->regexes[--presentation->regex_count]);
}

static fault_code no_memory(struct fault *fault)
{
    return fault_set(fault, FAULT_INTERNAL, ENOMEM, "report", "the profile");
}

/* A profile between its text and its samples. */
struct part {
    const struct present_source *source;
    struct heap_profile profile; /* with source->parsed: borrowed, with the mappings of another */
    struct symbols *symbols;     /* NULL: those of the first part */
};

/* The text has some hundred bytes per stack, which the parsed stacks can use. */
static void forget_text(void *ctx, const char *part, size_t len)
{
    struct sink *text = ctx;
    sink_forget(text, (size_t)(part - (const char *)text->bytes), len);
}

static fault_code parse_part(struct part *part, struct sink *text,
                             const struct presentation *presentation, struct fault *fault)
{
    const struct heap_reader forgets = {forget_text, text};
    bool once = presentation->format != FORMAT_SYMBOLIZED;
    fault_code rc = heap_parse_once(&part->profile, (const char *)text->bytes, text->len,
                                    presentation->samples.by_thread, once ? &forgets : NULL, fault);

    if (once)
        sink_free(text);
    return rc;
}

/* Opens a part; `first` is the first one, whose symbols serve all parts with its mappings. */
static fault_code open_part(struct part *part, const struct part *first,
                            const struct present_source *source,
                            const struct presentation *presentation, bool once,
                            const struct deadline *deadline, struct fault *fault)
{
    struct symbols_options symbols;
    fault_code rc;

    part->source = source;
    rc = parse_part(part, source->text, presentation, fault);
    if (rc != FAULT_NONE || (part != first && heap_same_mappings(&part->profile, &first->profile)))
        return rc;
    symbols = *source->symbols;
    symbols.once = once;
    symbols.deadline = deadline;
    symbols.system_lines = presentation->display.lines;
    part->symbols = locations_symbols(&part->profile, &symbols);
    return part->symbols ? FAULT_NONE : no_memory(fault);
}

/* The mappings show which calls are the allocator's. */
static void borrow_mappings(struct heap_profile *profile, const struct heap_profile *newest)
{
    profile->mappings = newest->mappings;
    profile->mapping_count = newest->mapping_count;
    profile->has_maps = newest->has_maps;
}

static void borrow_part(struct part *part, const struct present_source *source,
                        const struct heap_profile *newest)
{
    part->source = source;
    part->profile = *source->parsed;
    borrow_mappings(&part->profile, newest);
}

static void close_part(struct part *part)
{
    if (!part->source || !part->source->parsed)
        heap_free(&part->profile);
    if (part->symbols)
        symbols_free(part->symbols);
}

static void report_note(const struct run_events *events, const struct run_note *note)
{
    if (events && events->note)
        events->note(events->ctx, note);
}

/* Reports of which modules .dwo files are missing. */
static void report_split(const struct presentation *presentation, const struct symbols *symbols)
{
    struct symbols_coverage coverage;

    for (size_t i = 0; symbols_coverage(symbols, i, &coverage); i++)
        if (coverage.split_missing)
            report_note(presentation->events,
                        &(struct run_note){.kind = NOTE_SPLIT_MISSING, .coverage = &coverage});
}

/* The allocator's own calls are not shown. */
static bool is_shown(const struct symbols_coverage *coverage)
{
    return !coverage->path || code_kind_of_module(coverage->path) != CODE_ALLOCATOR;
}

/*
 * Returns for each mapping of the samples whether more than a hundredth of the memory is in stacks
 * with calls without a name in it; NULL: out of memory. The caller frees it.
 */
static bool *lacking_mappings(const struct samples *samples)
{
    const struct locations *locations = &samples->locations;
    AUTO_FREE double *nameless = calloc(locations->mapping_count + 1, sizeof *nameless);
    AUTO_FREE uint32_t *counted = calloc(locations->mapping_count + 1, sizeof *counted);
    bool *lacking = calloc(locations->mapping_count + 1, sizeof *lacking);
    double all = 0;

    for (uint32_t i = 0; nameless && counted && i < samples->count; i++) {
        const struct sample *sample = &samples->list[i];
        const struct amount *bytes = &sample->values[VALUE_BYTES];
        /* Where nothing is in use, each stack counts as one. */
        const double weight = fabs((double)bytes->now) + fabs((double)bytes->base) + 1;
        for (uint32_t j = 0; j < sample->depth; j++) {
            const struct location *location = &locations->list[samples->calls[sample->first + j]];
            if (location->named || location->mapping == TABLE_NONE ||
                counted[location->mapping] == i + 1)
                continue;
            counted[location->mapping] = i + 1;
            nameless[location->mapping] += weight;
        }
        all += weight;
    }
    for (size_t i = 0; lacking && nameless && i < locations->mapping_count; i++)
        lacking[i] = nameless[i] > all / NAMELESS_PART;
    return lacking;
}

/* A mapping has the path without " (deleted)". */
static bool lacks_names(const struct symbols_coverage *coverage, const struct locations *locations,
                        const bool *lacking)
{
    const char *path = coverage->path ? coverage->path : "";

    if (coverage->with_function == coverage->addresses || !is_shown(coverage))
        return false;
    for (size_t i = 0; i < locations->mapping_count; i++) {
        const char *of = locations->mappings[i].path;
        const size_t len = lacking[i] ? strlen(of) : 0;
        if (lacking[i] && strncmp(path, of, len) == 0 &&
            (!path[len] || strcmp(path + len, " (deleted)") == 0))
            return true;
    }
    return false;
}

void present_coverage(const struct run_events *events, const struct symbols *symbols,
                      const struct samples *samples)
{
    AUTO_FREE bool *lacking = samples ? lacking_mappings(samples) : NULL;
    struct symbols_coverage coverage;
    unsigned missing = 0, unread = 0;
    uint64_t more = 0;

    for (size_t i = 0; symbols_coverage(symbols, i, &coverage); i++) {
        const struct run_note note = {
            .kind = coverage.loss ? NOTE_NAMES_UNREAD : NOTE_NAMES_MISSING, .coverage = &coverage};
        if (!coverage.loss && (!lacking || !lacks_names(&coverage, &samples->locations, lacking)))
            continue;
        const char *name = coverage.path ? symbols_file_name(symbols, coverage.path) : "";
        if (*name && strcmp(name, text_base_name(coverage.path)) != 0)
            coverage.path = name; /* of the link by which the program was started */
        if (coverage.loss ? unread++ < UNREAD_REPORTED : missing++ < MISSING_REPORTED)
            report_note(events, &note);
        else
            more++;
    }
    if (more)
        report_note(events, &(struct run_note){.kind = NOTE_NAMES_UNREAD, .count = more});
}

static void report_oddities(const struct presentation *presentation,
                            const struct heap_profile *profile)
{
    if (profile->cut_short)
        report_note(presentation->events, &(struct run_note){.kind = NOTE_PROFILE_CUT});
    if (profile->odd_lines)
        report_note(presentation->events, &(struct run_note){.kind = NOTE_PROFILE_ODD_LINES,
                                                             .count = profile->odd_lines});
    if (profile->odd_maps)
        report_note(presentation->events,
                    &(struct run_note){.kind = NOTE_PROFILE_ODD_MAPS, .count = profile->odd_maps});
    if (!profile->has_maps)
        report_note(presentation->events, &(struct run_note){.kind = NOTE_PROFILE_NO_MAPS});
    if (profile->line_count == 0)
        report_note(presentation->events,
                    &(struct run_note){.kind = NOTE_PROFILE_EMPTY, .count = profile->period});
}

static void report_unmatched(const struct presentation *presentation, const struct samples *samples)
{
    const struct filter *filter = &presentation->samples.filter;
    const regex_t *const patterns[] = {filter->focus, filter->ignore, filter->hide, filter->show};

    for (unsigned i = 0; i < ARRAY_LEN(patterns); i++)
        if (patterns[i] && !(samples->matched & 1u << i))
            report_note(presentation->events,
                        &(struct run_note){.kind = NOTE_FILTER_UNMATCHED, .count = 1u << i});
}

static void report_part(const struct presentation *presentation, const struct part *part,
                        const struct samples *samples)
{
    char title[DISPLAY_TITLE_SIZE];

    if (presentation->terse)
        return;
    report_oddities(presentation, &part->profile);
    if (presentation->display.doubt &&
        (presentation->format == FORMAT_FOLDED || presentation->format == FORMAT_SYMBOLIZED))
        report_note(presentation->events,
                    &(struct run_note){.kind = NOTE_PROFILE_DOUBT,
                                       .why = display_title(&presentation->display, title)});
    if (part->profile.line_count)
        report_unmatched(presentation, samples);
    present_coverage(presentation->events, part->symbols, samples);
    report_split(presentation, part->symbols);
    if (symbols_map_error(part->symbols))
        report_note(presentation->events,
                    &(struct run_note){.kind = NOTE_PERF_MAP_UNUSED,
                                       .count = (uint64_t)symbols_map_error(part->symbols)});
    if (samples->cut)
        report_note(presentation->events,
                    &(struct run_note){.kind = NOTE_STACKS_TRUNCATED, .count = samples->cut});
    if (samples->compares && samples->period != samples->base_period)
        report_note(presentation->events, &(struct run_note){.kind = NOTE_PERIODS_DIFFER,
                                                             .count = samples->period,
                                                             .total = samples->base_period});
}

static fault_code write_svg(const struct presentation *presentation, const struct samples *samples,
                            FILE *out, struct fault *fault)
{
    AUTO_FREE char *graph = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&graph, &len);
    bool good = memory && dot_write(samples, &presentation->display, memory);

    if (memory && fclose(memory) != 0)
        good = false;
    return good ? graphviz_draw(presentation->dot, graph, len, out, fault) : no_memory(fault);
}

static fault_code write_pprof(const struct presentation *presentation,
                              const struct samples *samples, const struct part *part, FILE *out,
                              struct fault *fault)
{
    char sampling[128], counts[128];
    char title[DISPLAY_TITLE_SIZE];
    const char *const comments[] = {
        "jeattach " JEATTACH_VERSION, display_title(&presentation->display, title), sampling,
        counts, samples->compares ? "difference of two profiles, of equal stacks" : "heap profile"};
    struct pprof_info info = {part->source->time_ns, comments, ARRAY_LEN(comments)};

    if (samples->period > 1)
        snprintf(sampling, sizeof sampling, "estimated from a sample every %llu bytes on average",
                 (unsigned long long)samples->period);
    else
        snprintf(sampling, sizeof sampling, "every allocation was sampled");
    snprintf(counts, sizeof counts, "%zu calls of the allocator left out; %zu stacks truncated",
             samples->trimmed, samples->cut);
    switch (pprof_write(samples, &presentation->display, &info, out)) {
    case PPROF_DONE:
        return FAULT_NONE;
    case PPROF_NO_ZLIB:
        return fault_set(fault, FAULT_OUTPUT, 0, "compress", "libz.so.1 is not installed");
    default:
        return no_memory(fault);
    }
}

static fault_code write_samples(const struct presentation *presentation,
                                const struct samples *samples, const struct part *part, FILE *out,
                                struct fault *fault)
{
    static bool (*const writers[])(const struct samples *, const struct display *, FILE *) = {
        [FORMAT_TREE] = tree_write,         [FORMAT_FOLDED] = folded_write,
        [FORMAT_FLAME] = flame_write,       [FORMAT_DOT] = dot_write,
        [FORMAT_JSON] = profile_json_write,
    };
    bool good = true;

    switch (presentation->format) {
    case FORMAT_PPROF:
        return write_pprof(presentation, samples, part, out, fault);
    case FORMAT_SVG:
        return write_svg(presentation, samples, out, fault);
    case FORMAT_SYMBOLIZED: /* the first locations are those that samples_build added */
        symbolized_write(&samples->locations, samples->first_location, &part->profile,
                         (const char *)part->source->text->bytes + part->profile.header_at,
                         part->source->text->len - part->profile.header_at, out);
        break;
    case FORMAT_TEXT:
        good = top_write(samples, &presentation->display, out);
        break;
    default:
        good = writers[presentation->format](samples, &presentation->display, out);
        break;
    }
    return good ? FAULT_NONE : no_memory(fault);
}

static uint64_t moment_of(const struct part *part)
{
    return part->source->moment_ns ? part->source->moment_ns : part->source->time_ns;
}

/* The time of a source in seconds since the base; evenly spaced if the times are not in order. */
static double seconds_of(const struct part *parts, size_t count, size_t number)
{
    uint64_t base = moment_of(&parts[1]), last = base;

    for (size_t i = 2; i <= count; i++) {
        uint64_t time = moment_of(&parts[i % count]);
        if (!time || time <= last)
            return (double)(number == 0 ? count - 1 : number - 1);
        last = time;
    }
    return (double)(moment_of(&parts[number]) - base) / 1e9;
}

static bool build_series(const struct presentation *presentation, const struct part *parts,
                         size_t count, struct samples *samples)
{
    AUTO_FREE struct samples_part *series = calloc(count, sizeof *series);
    size_t compared = count;
    struct heap_profile stacks =
        count > 1 && presentation->stacks ? *presentation->stacks : (struct heap_profile){0};
    const struct samples_part own = {&stacks, parts[0].symbols, 0, false};
    AUTO_FREE uint32_t *of_stack = calloc(stacks.stack_count + 1, sizeof *of_stack);

    memset(samples, 0, sizeof *samples);
    while (compared > 1 && parts[compared - 1].source->adds)
        compared--;
    for (size_t i = 0; series && i < count; i++) {
        const struct part *named = parts[i].symbols ? &parts[i] : &parts[0];
        series[i] = (struct samples_part){&parts[i].profile, named->symbols,
                                          compared > 1 ? seconds_of(parts, compared, i) : 0,
                                          parts[i].source->adds};
    }
    borrow_mappings(&stacks, &parts[0].profile);
    return series && of_stack &&
           samples_build_series(samples, &presentation->samples, series, count,
                                stacks.stack_count ? &own : NULL, of_stack) &&
           (count == 1 || !presentation->judge ||
            presentation->judge(samples, of_stack, stacks.stack_count, presentation->judge_ctx));
}

/* Finds what the first line has to say about the parts, once their addresses have been looked up.
 */
static void find_doubt(struct display *display, const struct part *parts, size_t count)
{
    struct symbols_coverage coverage;
    enum display_doubt doubt;

    display->doubt = DOUBT_NONE;
    display->odd_lines = display->lines_read = 0;
    for (size_t i = 0; i < count; i++) {
        display->odd_lines += parts[i].profile.odd_lines;
        display->lines_read += parts[i].profile.line_count + parts[i].profile.stack_count;
        for (size_t j = 0; parts[i].symbols && symbols_coverage(parts[i].symbols, j, &coverage);
             j++) {
            doubt = coverage.lack == SYMBOLS_LACK_BUILD_ID && !parts[i].source->symbols->open
                        ? DOUBT_MAPPED
                    : coverage.doubt == SYMBOLS_DOUBT_INODE ? DOUBT_INODE
                    : coverage.doubt == SYMBOLS_DOUBT_TIME  ? DOUBT_CHANGED
                                                            : DOUBT_NONE;
            if (!doubt || !coverage.addresses || !is_shown(&coverage))
                continue;
            if (!display->doubt || doubt < display->doubt) {
                display->doubt = doubt;
                display->doubted = coverage.path;
                display->more_doubted = 0;
            } else if (doubt == display->doubt) {
                display->more_doubted++;
            }
        }
    }
    for (size_t i = 0; i < count; i++)
        if (!parts[i].source->parsed && (!parts[i].profile.has_maps || parts[i].profile.maps_cut))
            display->doubt = parts[i].profile.has_maps && display->doubt != DOUBT_CUT
                                 ? DOUBT_MAPS_CUT
                                 : DOUBT_CUT;
}

static fault_code present_samples(const struct presentation *presentation, const struct part *parts,
                                  size_t count, FILE *out, struct fault *fault)
{
    struct presentation shown = *presentation;
    struct samples samples;
    fault_code rc;

    if (build_series(presentation, parts, count, &samples)) {
        find_doubt(&shown.display, parts, count);
        rc = out ? write_samples(&shown, &samples, &parts[0], out, fault) : FAULT_NONE;
        if (out) /* the answer comes first */
            fflush(out);
        if (rc == FAULT_NONE && presentation->also &&
            !presentation->also(&samples, &presentation->display, presentation->also_ctx))
            rc = no_memory(fault);
        if (out)
            fflush(out); /* the notes are behind the answer */
        if (rc == FAULT_NONE)
            report_part(&shown, &parts[0], &samples);
        for (size_t i = 1; rc == FAULT_NONE && i < count; i++)
            if (parts[i].source->adds)
                report_oddities(&shown, &parts[i].profile);
        if (rc == FAULT_NONE && count > 1 && parts[1].source->adds &&
            heap_same_process(&parts[0].profile, &parts[1].profile))
            report_note(presentation->events, &(struct run_note){.kind = NOTE_PROFILES_OVERLAP});
    } else if (samples.too_many) {
        rc = fault_set(fault, FAULT_TOO_LARGE, 0, "report", "%d calls", SAMPLES_CALLS_LIMIT);
    } else {
        rc = no_memory(fault);
    }
    samples_free(&samples);
    return rc;
}

/* Says which of several profiles it is. */
static void name_source(const struct present_source *source, struct fault *fault)
{
    char what[sizeof fault->what];

    snprintf(what, sizeof what, "%s", fault->what);
    snprintf(fault->what, sizeof fault->what, "%.120s: %.120s", source->name, what);
}

static fault_code refuse_mixed(const struct present_source *first,
                               const struct present_source *other, struct fault *fault)
{
    fault_set(fault, FAULT_PROFILE, 0, "report",
              "%.100s and %.100s are not of one program with one sampling period", first->name,
              other->name);
    fault_set_reason(fault, PROFILE_MIXED);
    return FAULT_PROFILE;
}

static fault_code present_parts(const struct presentation *presentation,
                                const struct present_source *sources, size_t count, FILE *out,
                                struct fault *fault)
{
    const struct deadline deadline = {
        .at = presentation->until ? presentation->until : UINT64_MAX,
        .interrupted = interrupt_flag(),
    };
    const int interrupted = *interrupt_flag();
    AUTO_FREE struct part *parts = calloc(count, sizeof *parts);
    fault_code rc = parts ? FAULT_NONE : no_memory(fault);
    bool once = count == 1; /* no other profile is named by the same symbols */

    for (size_t i = 0; rc == FAULT_NONE && i < count; i++) {
        if (sources[i].parsed)
            borrow_part(&parts[i], &sources[i], &parts[0].profile);
        else
            rc = open_part(&parts[i], &parts[0], &sources[i], presentation, once, &deadline, fault);
        if (rc == FAULT_PROFILE && i > 0 && sources[i].name)
            name_source(&sources[i], fault);
        if (rc == FAULT_NONE && sources[i].adds &&
            !heap_same_program(&parts[0].profile, &parts[i].profile))
            rc = refuse_mixed(&sources[0], &sources[i], fault);
    }
    if (rc == FAULT_NONE)
        rc = present_samples(presentation, parts, count, out, fault);
    if (rc == FAULT_NONE && *interrupt_flag() != interrupted)
        rc = fault_set(fault, FAULT_INTERRUPTED, EINTR, "present", "the profile");
    for (size_t i = 0; parts && i < count; i++)
        close_part(&parts[i]);
    return rc;
}

/* Otherwise the operator may take the time for that of the target. */
static fault_code finish_output(const struct presentation *presentation, struct output *output,
                                const void *bytes, size_t len, struct fault *fault)
{
    fault_code rc = output_finish(output, bytes, len, fault);

    if (rc == FAULT_NONE && output->ns >= SLOW_NS && output->fd < 0)
        report_note(presentation->events,
                    &(struct run_note){.kind = NOTE_OUTPUT_SLOW, .count = output->ns});
    return rc;
}

fault_code present(const struct presentation *presentation, const struct present_source *sources,
                   size_t count, struct output *output, struct fault *fault)
{
    const uint64_t until = presentation->until ? presentation->until : UINT64_MAX;
    uint64_t former;
    fault_code rc;
    FILE *out;

    if (!output)
        return present_parts(presentation, sources, count, NULL, fault);
    if (presentation->format == FORMAT_RAW)
        return finish_output(presentation, output, sources[0].text->bytes, sources[0].text->len,
                             fault);
    out = output_stream(output);
    if (!out)
        return no_memory(fault);
    former = interruptions_end_at(until < UINT64_MAX - WRITE_NS ? until + WRITE_NS : until);
    rc = present_parts(presentation, sources, count, out, fault);
    if (fclose(out) != 0 && !output->err)
        output->err = ENOMEM;
    (void)interruptions_end_at(former);
    if (rc == FAULT_NONE && output->err == ETIME)
        rc = fault_set(fault, FAULT_OUTPUT, 0, "write output",
                       "--timeout ended while it was written");
    return rc == FAULT_NONE ? finish_output(presentation, output, "", 0, fault) : rc;
}
