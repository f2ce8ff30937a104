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

/* The text has some hundred bytes per stack, which the parsed stacks can use. */
static void forget_text(void *ctx, const char *part, size_t len)
{
    struct sink *text = ctx;
    sink_forget(text, (size_t)(part - (const char *)text->bytes), len);
}

/* The mappings show which calls are the allocator's. */
static void borrow_mappings(struct heap_profile *profile, const struct heap_profile *newest)
{
    profile->mappings = newest->mappings;
    profile->mapping_count = newest->mapping_count;
    profile->has_maps = newest->has_maps;
}

/* The symbols of the first part serve all parts with its mappings. */
static fault_code open_part(struct present_part *part, const struct present_part *first,
                            const struct presentation *presentation,
                            struct symbols_options *symbols, struct fault *fault)
{
    const bool once = presentation->format != FORMAT_SYMBOLIZED;
    struct sink *text = part->source.text;
    const struct heap_reader forgets = {forget_text, text};
    fault_code rc;

    if (part->source.parsed) {
        part->profile = *part->source.parsed;
        borrow_mappings(&part->profile, &first->profile);
        return FAULT_NONE;
    }
    rc = heap_parse_once(&part->profile, (const char *)text->bytes, text->len,
                         presentation->samples.by_thread, once ? &forgets : NULL, fault);
    if (once)
        sink_free(text);
    if (rc != FAULT_NONE || (part != first && heap_same_mappings(&part->profile, &first->profile)))
        return rc;
    symbols->time_ns = symbols->open ? 0 : part->source.time_ns;
    part->symbols = locations_symbols(&part->profile, symbols);
    return part->symbols ? FAULT_NONE : no_memory(fault);
}

static void close_part(struct present_part *part)
{
    if (!part->source.parsed)
        heap_free(&part->profile);
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

static void report_unmatched(const struct presented *presented)
{
    const struct filter *filter = &presented->presentation->samples.filter;
    const regex_t *const patterns[] = {filter->focus, filter->ignore, filter->hide, filter->show};

    for (unsigned i = 0; i < ARRAY_LEN(patterns); i++)
        if (patterns[i] && !(presented->samples.matched & 1u << i))
            report_note(presented->presentation->events,
                        &(struct run_note){.kind = NOTE_FILTER_UNMATCHED, .count = 1u << i});
}

void present_notes(const struct presented *presented)
{
    const struct presentation *presentation = presented->presentation;
    const struct run_events *events = presentation->events;
    const struct present_part *part = presented->parts;
    const struct samples *samples = &presented->samples;
    char title[DISPLAY_TITLE_SIZE];

    if (presentation->terse || !part)
        return;
    report_oddities(presentation, &part->profile);
    if (presented->display.doubt &&
        (presentation->format == FORMAT_FOLDED || presentation->format == FORMAT_SYMBOLIZED))
        report_note(events, &(struct run_note){.kind = NOTE_PROFILE_DOUBT,
                                               .why = display_title(&presented->display, title)});
    if (part->profile.line_count)
        report_unmatched(presented);
    present_coverage(events, part->symbols, samples);
    report_split(presentation, part->symbols);
    if (symbols_map_error(part->symbols))
        report_note(events,
                    &(struct run_note){.kind = NOTE_PERF_MAP_UNUSED,
                                       .count = (uint64_t)symbols_map_error(part->symbols)});
    if (samples->cut)
        report_note(events,
                    &(struct run_note){.kind = NOTE_STACKS_TRUNCATED, .count = samples->cut});
    if (samples->compares && samples->period != samples->base_period)
        report_note(events, &(struct run_note){.kind = NOTE_PERIODS_DIFFER,
                                               .count = samples->period,
                                               .total = samples->base_period});
    for (size_t i = 1; i < presented->count; i++)
        if (part[i].source.adds)
            report_oddities(presentation, &part[i].profile);
    if (presented->count > 1 && part[1].source.adds &&
        heap_same_process(&part[0].profile, &part[1].profile))
        report_note(events, &(struct run_note){.kind = NOTE_PROFILES_OVERLAP});
}

static fault_code write_svg(const struct presented *presented, FILE *out, struct fault *fault)
{
    AUTO_FREE char *graph = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&graph, &len);
    bool good = memory && dot_write(&presented->samples, &presented->display, memory);

    if (memory && fclose(memory) != 0)
        good = false;
    return good ? graphviz_draw(presented->presentation->dot, graph, len, out, fault)
                : no_memory(fault);
}

static fault_code write_pprof(const struct presented *presented, FILE *out, struct fault *fault)
{
    const struct samples *samples = &presented->samples;
    char sampling[128], counts[128];
    char title[DISPLAY_TITLE_SIZE];
    const char *const comments[] = {
        "jeattach " JEATTACH_VERSION, display_title(&presented->display, title), sampling, counts,
        samples->compares ? "difference of two profiles, of equal stacks" : "heap profile"};
    struct pprof_info info = {presented->parts[0].source.time_ns, comments, ARRAY_LEN(comments)};

    if (samples->period > 1)
        snprintf(sampling, sizeof sampling, "estimated from a sample every %llu bytes on average",
                 (unsigned long long)samples->period);
    else
        snprintf(sampling, sizeof sampling, "every allocation was sampled");
    snprintf(counts, sizeof counts, "%zu calls of the allocator left out; %zu stacks truncated",
             samples->trimmed, samples->cut);
    switch (pprof_write(samples, &presented->display, &info, out)) {
    case PPROF_DONE:
        return FAULT_NONE;
    case PPROF_NO_ZLIB:
        return fault_set(fault, FAULT_OUTPUT, 0, "compress", "libz.so.1 is not installed");
    default:
        return no_memory(fault);
    }
}

static fault_code write_samples(const struct presented *presented, FILE *out, struct fault *fault)
{
    static bool (*const writers[])(const struct samples *, const struct display *, FILE *) = {
        [FORMAT_TEXT] = top_write,      [FORMAT_TREE] = tree_write,
        [FORMAT_FOLDED] = folded_write, [FORMAT_FLAME] = flame_write,
        [FORMAT_DOT] = dot_write,       [FORMAT_JSON] = profile_json_write,
    };
    const enum format format = presented->presentation->format;
    const struct samples *samples = &presented->samples;
    const struct present_part *part = &presented->parts[0];

    switch (format) {
    case FORMAT_PPROF:
        return write_pprof(presented, out, fault);
    case FORMAT_SVG:
        return write_svg(presented, out, fault);
    case FORMAT_SYMBOLIZED: /* the first locations are those that samples_build added */
        symbolized_write(&samples->locations, samples->first_location, &part->profile,
                         (const char *)part->source.text->bytes + part->profile.header_at,
                         part->source.text->len - part->profile.header_at, out);
        return FAULT_NONE;
    default:
        return writers[format](samples, &presented->display, out) ? FAULT_NONE : no_memory(fault);
    }
}

static uint64_t moment_of(const struct present_part *part)
{
    return part->source.moment_ns ? part->source.moment_ns : part->source.time_ns;
}

/* The time of a source in seconds since the base; evenly spaced if the times are not in order. */
static double seconds_of(const struct present_part *parts, size_t count, size_t number)
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

/* False: out of memory, or samples->too_many is set. */
static bool build_samples(struct presented *presented)
{
    const struct presentation *presentation = presented->presentation;
    const struct present_part *parts = presented->parts;
    const size_t count = presented->count;
    AUTO_FREE struct samples_part *series = calloc(count, sizeof *series);
    size_t compared = count;
    struct heap_profile stacks =
        count > 1 && presentation->stacks ? *presentation->stacks : (struct heap_profile){0};
    const struct samples_part own = {&stacks, parts[0].symbols, 0, false};

    presented->stack_count = stacks.stack_count;
    presented->of_stack = calloc(stacks.stack_count + 1, sizeof *presented->of_stack);
    while (compared > 1 && parts[compared - 1].source.adds)
        compared--;
    for (size_t i = 0; series && i < count; i++) {
        const struct present_part *named = parts[i].symbols ? &parts[i] : &parts[0];
        series[i] = (struct samples_part){&parts[i].profile, named->symbols,
                                          compared > 1 ? seconds_of(parts, compared, i) : 0,
                                          parts[i].source.adds};
    }
    borrow_mappings(&stacks, &parts[0].profile);
    return series && presented->of_stack &&
           samples_build_series(&presented->samples, &presentation->samples, series, count,
                                stacks.stack_count ? &own : NULL, presented->of_stack);
}

/* Finds what the first line has to say about the parts, once their addresses have been looked up.
 */
static void find_doubt(struct presented *presented, bool running)
{
    struct display *display = &presented->display;
    const struct present_part *parts = presented->parts;
    struct symbols_coverage coverage;
    enum display_doubt doubt;

    display->doubt = DOUBT_NONE;
    display->odd_lines = display->lines_read = 0;
    for (size_t i = 0; i < presented->count; i++) {
        display->odd_lines += parts[i].profile.odd_lines;
        display->lines_read += parts[i].profile.line_count + parts[i].profile.stack_count;
        for (size_t j = 0; parts[i].symbols && symbols_coverage(parts[i].symbols, j, &coverage);
             j++) {
            doubt = coverage.lack == SYMBOLS_LACK_BUILD_ID && !running ? DOUBT_MAPPED
                    : coverage.doubt == SYMBOLS_DOUBT_INODE            ? DOUBT_INODE
                    : coverage.doubt == SYMBOLS_DOUBT_TIME             ? DOUBT_CHANGED
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
    for (size_t i = 0; i < presented->count; i++)
        if (!parts[i].source.parsed && (!parts[i].profile.has_maps || parts[i].profile.maps_cut))
            display->doubt = parts[i].profile.has_maps && display->doubt != DOUBT_CUT
                                 ? DOUBT_MAPS_CUT
                                 : DOUBT_CUT;
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

fault_code present_read(struct presented *presented, const struct presentation *presentation,
                        const struct symbols_options *given, const struct present_source *sources,
                        size_t count, struct fault *fault)
{
    const struct deadline deadline = {
        .at = presentation->until ? presentation->until : UINT64_MAX,
        .interrupted = interrupt_flag(),
    };
    struct symbols_options symbols = *given;
    struct present_part *parts;
    fault_code rc = FAULT_NONE;

    *presented = (struct presented){.presentation = presentation,
                                    .display = presentation->display,
                                    .text = sources[0].text,
                                    .interrupted = *interrupt_flag()};
    if (presentation->format == FORMAT_RAW)
        return FAULT_NONE;
    presented->parts = parts = calloc(count, sizeof *parts);
    if (!parts)
        return no_memory(fault);
    presented->count = count;
    symbols.once = count == 1; /* no other profile is named by the same symbols */
    symbols.deadline = &deadline;
    symbols.system_lines = presentation->display.lines;
    for (size_t i = 0; rc == FAULT_NONE && i < count; i++) {
        parts[i].source = sources[i];
        rc = open_part(&parts[i], parts, presentation, &symbols, fault);
        if (rc == FAULT_PROFILE && i > 0 && sources[i].name)
            name_source(&sources[i], fault);
        if (rc == FAULT_NONE && sources[i].adds &&
            !heap_same_program(&parts[0].profile, &parts[i].profile))
            rc = refuse_mixed(&sources[0], &sources[i], fault);
    }
    if (rc == FAULT_NONE && !build_samples(presented))
        rc = presented->samples.too_many
                 ? fault_set(fault, FAULT_TOO_LARGE, 0, "report", "%d calls", SAMPLES_CALLS_LIMIT)
                 : no_memory(fault);
    if (rc == FAULT_NONE)
        find_doubt(presented, given->open != NULL);
    return rc;
}

void present_free(struct presented *presented)
{
    if (!presented->parts)
        return;
    samples_free(&presented->samples);
    for (size_t i = 0; i < presented->count; i++)
        close_part(&presented->parts[i]);
    free(presented->parts);
    free(presented->of_stack);
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

static fault_code write_stream(const struct presented *presented, struct output *output,
                               struct fault *fault)
{
    const uint64_t until = presented->presentation->until;
    const uint64_t former = interruptions_end_at(
        until && until < UINT64_MAX - WRITE_NS ? until + WRITE_NS : UINT64_MAX);
    FILE *out = output_stream(output);
    fault_code rc = out ? write_samples(presented, out, fault) : no_memory(fault);

    if (out && fclose(out) != 0 && !output->err)
        output->err = ENOMEM;
    (void)interruptions_end_at(former);
    return rc;
}

fault_code present_write(const struct presented *presented, struct output *output,
                         struct fault *fault)
{
    const struct presentation *presentation = presented->presentation;
    fault_code rc = FAULT_NONE;

    if (presentation->format == FORMAT_RAW)
        return finish_output(presentation, output, presented->text->bytes, presented->text->len,
                             fault);
    if (output && *interrupt_flag() == presented->interrupted)
        rc = write_stream(presented, output, fault);
    if (rc != FAULT_NONE)
        return rc;
    if (*interrupt_flag() != presented->interrupted)
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "present", "the profile");
    if (output && output->err == ETIME)
        return fault_set(fault, FAULT_OUTPUT, 0, "write output",
                         "--timeout ended while it was written");
    return output ? finish_output(presentation, output, "", 0, fault) : FAULT_NONE;
}

fault_code present_end(struct presented *presented, fault_code rc, struct output *output,
                       struct fault *fault)
{
    if (rc == FAULT_NONE)
        rc = present_write(presented, output, fault);
    if (rc == FAULT_NONE)
        present_notes(presented);
    present_free(presented);
    return rc;
}
