#include "cli/presentation.h"
#include "cli/message.h"
#include "cli/output/stdout.h"
#include "cli/output/wrap.h"
#include "cli/words.h"
#include "run/graphviz.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Functions below half a percent are not listed, as in pprof; a flame graph shows more. */
static const double ROW_SHARE_MIN = 0.005, FLAME_SHARE_MIN = 0.0001;

static const char *const units[] = {
    [UNIT_AUTO] = "auto", [UNIT_BYTES] = "B", [UNIT_KIB] = "KiB",
    [UNIT_MIB] = "MiB",   [UNIT_GIB] = "GiB",
};

static bool refuse_format(const char *kind, const char *wrong, const char *(*word)(enum format))
{
    const char *words[FORMAT_COUNT];

    for (enum format format = FORMAT_RAW; format < FORMAT_COUNT; format++)
        words[format] = word(format);
    return words_refuse(kind, wrong, words, FORMAT_COUNT);
}

/* With -f the name may have any extension. */
static bool set_format(struct presentation *presentation, const struct options *options,
                       enum format fallback)
{
    const char *name = options->report.format, *path = options->output, *foreign;

    if (name)
        return format_find(name, &presentation->format) ||
               refuse_format("format", name, format_name);
    foreign = path ? format_foreign_extension(path) : NULL;
    if (foreign) {
        (void)refuse_format("extension", foreign, format_extension);
        fputs("  fix:   use the extension of a format (.heap, .html, .txt, ...), or choose the "
              "format with -f\n",
              stderr);
        return false;
    }
    if (!path || !format_of_path(path, &presentation->format))
        presentation->format = fallback;
    return true;
}

static bool set_value(struct display *display, const struct profile_options *report)
{
    static const char *const values[] = {"inuse_space", "inuse_objects", "alloc_space",
                                         "alloc_objects"};
    enum value value = VALUE_TOTAL_OBJECTS;

    display->unit = UNIT_AUTO;
    if (report->unit &&
        !words_choose("unit", report->unit, units, ARRAY_LEN(units), &display->unit))
        return false;

    display->value = VALUE_BYTES;
    if (!report->value)
        return true;
    while (value < VALUE_KINDS && strcmp(report->value, value_name(value)) != 0)
        value++;
    if (value == VALUE_KINDS)
        return words_refuse("value", report->value, values, ARRAY_LEN(values));
    display->value = value;
    return true;
}

bool presentation_number(const char *option, const char *text, const char *things, size_t *out)
{
    char clean[64], *end;

    errno = 0;
    *out = strtoul(text, &end, 10);
    if (!errno && end != text && !*end && *text >= '0' && *text <= '9')
        return true;
    message("%s '%s' is not a number: use a whole number; 0 shows all %s", option,
            message_clean(text, clean, sizeof clean), things);
    return false;
}

/* The maximum numbers of rows and of calls of a stack; 0: all of them, however small. */
static bool set_limits(struct display *display, enum format format,
                       const struct profile_options *report)
{
    display->least = format == FORMAT_FLAME ? FLAME_SHARE_MIN : ROW_SHARE_MIN;
    if (report->rows && !presentation_number("--rows", report->rows, "rows", &display->rows))
        return false;
    if (report->rows && display->rows == 0 && format != FORMAT_FLAME)
        display->least = 0;

    if (report->depth && !presentation_number("--depth", report->depth, "calls", &display->depth))
        return false;
    if (report->depth && display->depth == 0)
        display->depth = DISPLAY_DEPTH_ALL;
    return true;
}

static bool set_regex(struct presentation *presentation, const char *option, const char *text,
                      const regex_t **out)
{
    regex_t *regex = &presentation->regexes[presentation->regex_count];
    char reason[128];
    int rc;

    if (!text)
        return true;
    rc = filter_compile(regex, text);
    if (rc == 0) {
        presentation->regex_count++;
        *out = regex;
        return true;
    }
    regerror(rc, regex, reason, sizeof reason);
    message("%s is not a valid regular expression: %s", option, reason);
    return false;
}

static bool set_filter(struct presentation *presentation, const struct options *options)
{
    const struct profile_options *report = &options->report;
    const enum format format = presentation->format;
    struct filter *filter = &presentation->samples.filter;
    /* Names are full where a program reads them, and where the view does not run out of room. */
    const bool narrow = format == FORMAT_TEXT || format == FORMAT_TREE || format == FORMAT_FLAME ||
                        format == FORMAT_DOT || format == FORMAT_SVG;
    /* Other tools have options of their own for it. */
    const bool folds = format != FORMAT_PPROF && !format_is_unchanged(format);

    presentation->samples.by_thread = report->by_thread;
    presentation->samples.thread_frames = report->by_thread && format != FORMAT_PPROF;
    presentation->samples.keep_allocator = report->keep_allocator;
    presentation->samples.keep_plumbing = report->no_fold || !folds;
    presentation->samples.short_names = narrow && !options->json && !report->full_names;
    presentation->display.full_names = report->full_names;
    presentation->display.unfolded = report->no_fold;
    return set_regex(presentation, "--focus", report->focus, &filter->focus) &&
           set_regex(presentation, "--ignore", report->ignore, &filter->ignore) &&
           set_regex(presentation, "--hide", report->hide, &filter->hide) &&
           set_regex(presentation, "--show", report->show, &filter->show);
}

static bool check_format(struct presentation *presentation, const struct options *options)
{
    const struct profile_options *report = &options->report;
    const enum format format = presentation->format;
    /* A verb's own table, without an output, takes none of the options of some formats. */
    const bool written = options->output || report->format, tree = written && format == FORMAT_TREE,
               text = written && format == FORMAT_TEXT, flame = written && format == FORMAT_FLAME;
    /* Options that cannot apply to a profile that is written unchanged. */
    const bool changes = options->base || options->more_count || report->focus || report->ignore ||
                         report->hide || report->show || report->unit || report->value ||
                         report->rows || report->by_thread || report->keep_allocator ||
                         report->no_fold || report->full_names || report->depth;

    if (report->invert && !tree && !flame) {
        message("--invert works only with the formats tree and flame: choose it with -f");
        return false;
    }
    if (report->lines && !tree && !text) {
        message("--lines works only with the formats text and tree: choose it with -f");
        return false;
    }
    if (format_is_binary(format) && options_to_stdout(options) && isatty(STDOUT_FILENO)) {
        message("this format cannot be written to a terminal: use -o FILE");
        return false;
    }
    if (format_is_unchanged(format) && changes) {
        message("the formats raw and symbolized contain the whole profile: "
                "choose another format (-f) for --base, --focus and similar options");
        return false;
    }
    if (format == FORMAT_SVG && !graphviz_find(presentation->dot, sizeof presentation->dot)) {
        message("format svg needs the program dot, which is not installed (package graphviz): "
                "use -o FILE.dot, or -o FILE.html for a flame graph");
        return false;
    }
    return true;
}

bool presentation_init(struct presentation *presentation, const struct options *options,
                       enum format fallback)
{
    const struct profile_options *report = &options->report;
    struct display *display = &presentation->display;

    memset(presentation, 0, sizeof *presentation);
    presentation->no_inlines = report->no_inlines;
    presentation->debuginfod = report->debuginfod;
    display->title = presentation->title;
    display->inverted = report->invert;
    display->lines = report->lines;
    if (!set_format(presentation, options, fallback) || !set_value(display, report) ||
        !set_limits(display, presentation->format, report) || !set_filter(presentation, options) ||
        !check_format(presentation, options))
        return false;

    /* What the reader of the output can show. */
    display->utf8 = locale_is_utf8();
    display->colors = options_to_stdout(options) && isatty(STDOUT_FILENO);
    if (display->colors)
        display->width = wrap_columns();
    return true;
}
