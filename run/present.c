#include "run/present.h"
#include "cli/message.h"
#include "profile/profile_json.h"
#include "profile/dot.h"
#include "profile/flame.h"
#include "profile/pprof.h"
#include "profile/symbolized.h"
#include "run/faults.h"
#include "run/graphviz.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MODULES_TOLD = 5 };

static fault_code no_memory(struct fault *fault)
{
    return fault_set(fault, FAULT_INTERNAL, ENOMEM, "report", "the profile");
}

/* What a profile is made into on its way. */
struct part {
    const struct present_source *source;
    struct heap_profile profile;
    struct symbols *symbols;
};

static fault_code open_part(struct part *part, const struct present_source *source,
                            enum format format, struct fault *fault)
{
    fault_code rc;

    part->source = source;
    rc = heap_parse(&part->profile, (const char *)source->text->bytes, source->text->len, fault);
    if (format != FORMAT_SYMBOLIZED)
        sink_free(source->text); /* some hundred bytes a stack, which the symbols can use */
    if (rc != FAULT_NONE)
        return rc;
    part->symbols = locations_symbols(&part->profile, source->symbols);
    return part->symbols ? FAULT_NONE : no_memory(fault);
}

static void close_part(struct part *part)
{
    heap_free(&part->profile);
    if (part->symbols)
        symbols_free(part->symbols);
}

static const char *lack_text(enum symbols_lack lack)
{
    switch (lack) {
    case SYMBOLS_LACK_FILE:
        return "its file cannot be opened";
    case SYMBOLS_LACK_BUILD_ID:
        return "its file is another one than that which was mapped";
    case SYMBOLS_LACK_ELF:
        return "its file is no ELF file of this kind of machine";
    case SYMBOLS_LACK_TABLE:
        return "it is stripped, and no debug file was found";
    default:
        return "no symbol covers them";
    }
}

/* Where names are missing and why; the allocator's own calls are not shown anyway. */
static void tell_coverage(const struct symbols *symbols)
{
    struct symbols_coverage coverage;
    char clean[256];
    unsigned told = 0;

    for (size_t i = 0; told < MODULES_TOLD && symbols_coverage(symbols, i, &coverage); i++) {
        const char *path = coverage.path ? coverage.path : "";
        if (coverage.with_function >= coverage.addresses || strstr(path, "libjemalloc"))
            continue;
        message("%s: %llu of %llu addresses have no name: %s%s%s",
                *path ? message_clean(path, clean, sizeof clean) : "memory of no file",
                (unsigned long long)(coverage.addresses - coverage.with_function),
                (unsigned long long)coverage.addresses, lack_text(coverage.lack),
                coverage.err ? ": " : "", coverage.err ? strerror(coverage.err) : "");
        told++;
    }
}

static void tell_oddities(const struct heap_profile *profile)
{
    if (profile->cut_short)
        message("the profile ends within a line: it was cut, and what is missing is not counted");
    if (profile->odd_lines)
        message("%zu lines of the profile were not understood and passed over", profile->odd_lines);
    if (!profile->has_maps)
        message("the profile has no MAPPED_LIBRARIES: its addresses have no names");
    if (profile->line_count == 0)
        message("the profile holds no sample: was profiling active (jeattach on PID)?");
}

static void tell(const struct presentation *presentation, const struct part *part,
                 const struct samples *samples)
{
    if (presentation->options->quiet || presentation->terse)
        return;
    tell_oddities(&part->profile);
    tell_coverage(part->symbols);
    if (samples->cut)
        message("%zu stacks have as many calls as jemalloc keeps: they end in [truncated]",
                samples->cut);
    if (samples->compares && samples->period != samples->base_period)
        message("the two profiles have different periods: %llu and %llu bytes",
                (unsigned long long)samples->period, (unsigned long long)samples->base_period);
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
    const char *const comments[] = {
        "jeattach " JEATTACH_VERSION, presentation->title, sampling, counts,
        samples->compares ? "difference of two profiles, of equal stacks" : "heap profile"};
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
    const struct display *display = &presentation->display;
    bool good;

    switch (presentation->format) {
    case FORMAT_PPROF:
        return write_pprof(presentation, samples, part, out, fault);
    case FORMAT_SVG:
        return write_svg(presentation, samples, out, fault);
    case FORMAT_FOLDED:
        good = folded_write(samples, display, out);
        break;
    case FORMAT_FLAME:
        good = flame_write(samples, display, out);
        break;
    case FORMAT_DOT:
        good = dot_write(samples, display, out);
        break;
    case FORMAT_JSON:
        good = profile_json_write(samples, display, out);
        break;
    case FORMAT_SYMBOLIZED: /* the locations begin with those of samples_build's own */
        symbolized_write(&samples->locations, samples->first_location, &part->profile,
                         (const char *)part->source->text->bytes, part->source->text->len, out);
        good = true;
        break;
    default:
        good = top_write(samples, display, out);
        break;
    }
    return good ? FAULT_NONE : no_memory(fault);
}

static fault_code present_samples(const struct presentation *presentation, struct part *parts,
                                  bool compares, FILE *out, struct fault *fault)
{
    struct samples samples;
    fault_code rc;

    if (samples_build(&samples, &presentation->samples, &parts[0].profile, parts[0].symbols,
                      compares ? &parts[1].profile : NULL, parts[1].symbols)) {
        rc = out ? write_samples(presentation, &samples, &parts[0], out, fault) : FAULT_NONE;
        if (rc == FAULT_NONE && presentation->also &&
            !presentation->also(&samples, &presentation->display, presentation->also_ctx))
            rc = no_memory(fault);
        if (rc == FAULT_NONE)
            tell(presentation, &parts[0], &samples);
    } else {
        rc = no_memory(fault);
    }
    samples_free(&samples);
    return rc;
}

static fault_code present_parts(const struct presentation *presentation,
                                const struct present_source *profile,
                                const struct present_source *base, FILE *out, struct fault *fault)
{
    struct part parts[2] = {0};
    fault_code rc = open_part(&parts[0], profile, presentation->format, fault);

    if (rc == FAULT_NONE && base)
        rc = open_part(&parts[1], base, presentation->format, fault);
    if (rc == FAULT_NONE)
        rc = present_samples(presentation, parts, base != NULL, out, fault);
    close_part(&parts[0]);
    close_part(&parts[1]);
    return rc;
}

fault_code present(const struct presentation *presentation, const struct present_source *profile,
                   const struct present_source *base, struct output *output, struct fault *fault)
{
    fault_code rc;
    FILE *out;

    if (!output)
        return present_parts(presentation, profile, base, NULL, fault);
    if (presentation->format == FORMAT_RAW)
        return output_finish(output, profile->text->bytes, profile->text->len, fault);
    out = output_stream(output);
    if (!out)
        return no_memory(fault);
    rc = present_parts(presentation, profile, base, out, fault);
    if (fclose(out) != 0 && !output->err)
        output->err = ENOMEM;
    return rc == FAULT_NONE ? output_finish(output, "", 0, fault) : rc;
}
