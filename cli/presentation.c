#include "cli/presentation.h"
#include "cli/message.h"
#include "cli/output/sparkline.h"
#include "cli/words.h"
#include "run/graphviz.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

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

static bool refuse_extension(const char *extension)
{
    (void)refuse_format("extension", extension, format_extension);
    fputs("  fix:   use the extension of a format (.heap, .html, .txt, ...), or choose the format "
          "with -f\n",
          stderr);
    return false;
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
    if (foreign)
        return refuse_extension(foreign);
    if (!path || !format_of_path(path, &presentation->format))
        presentation->format = fallback;
    return true;
}

static bool set_unit(struct presentation *presentation, const char *name)
{
    for (enum unit i = UNIT_AUTO; i < ARRAY_LEN(units); i++)
        if (!name || strcmp(name, units[i]) == 0) {
            presentation->display.unit = i;
            return true;
        }
    return words_refuse("unit", name, units, ARRAY_LEN(units));
}

static bool set_display_value(struct presentation *presentation, const char *name)
{
    static const char *const names[] = {"inuse_space", "inuse_objects", "alloc_space",
                                        "alloc_objects"};

    presentation->display.value = VALUE_BYTES;
    if (!name)
        return true;
    for (enum value i = VALUE_TOTAL_OBJECTS; i < VALUE_KINDS; i++)
        if (strcmp(name, value_name(i)) == 0) {
            presentation->display.value = i;
            return true;
        }
    return words_refuse("value", name, names, ARRAY_LEN(names));
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

/* A number of rows; 0: all rows, however small. */
static bool set_rows(struct presentation *presentation, const char *text)
{
    presentation->display.least =
        presentation->format == FORMAT_FLAME ? FLAME_SHARE_MIN : ROW_SHARE_MIN;
    if (!text)
        return true;
    if (!presentation_number("--rows", text, "rows", &presentation->display.rows))
        return false;
    if (presentation->display.rows == 0 && presentation->format != FORMAT_FLAME)
        presentation->display.least = 0;
    return true;
}

/* The maximum number of calls of a stack; 0: all. */
static bool set_depth(struct presentation *presentation, const char *text)
{
    size_t *depth = &presentation->display.depth;

    if (!text)
        return true;
    if (!presentation_number("--depth", text, "calls", depth))
        return false;
    if (*depth == 0)
        *depth = DISPLAY_DEPTH_ALL;
    return true;
}

/* Reports an option that the format has no use for. Returns false, for the caller. */
static bool refuse_option(const char *option, const char *formats)
{
    message("%s works only with the %s: choose it with -f", option, formats);
    return false;
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

/* The options of some formats; a verb's own table, without an output, takes none of them. */
static bool set_view(struct presentation *presentation, const struct options *options)
{
    const struct profile_options *report = &options->report;
    bool written = options->output || report->format,
         tree = written && presentation->format == FORMAT_TREE,
         text = written && presentation->format == FORMAT_TEXT,
         flame = written && presentation->format == FORMAT_FLAME;

    presentation->display.inverted = report->invert;
    presentation->display.lines = report->lines;
    if (report->invert && !tree && !flame)
        return refuse_option("--invert", "formats tree and flame");
    if (report->lines && !tree && !text)
        return refuse_option("--lines", "formats text and tree");
    return true;
}

/* Other tools have options of their own for it. */
static bool folds_plumbing(enum format format)
{
    return format != FORMAT_PPROF && !format_is_unchanged(format);
}

/* Names are full where a program reads them, and where the view does not run out of room. */
static bool has_short_names(enum format format, const struct options *options)
{
    bool narrow = format == FORMAT_TEXT || format == FORMAT_TREE || format == FORMAT_FLAME ||
                  format == FORMAT_DOT || format == FORMAT_SVG;

    return narrow && !options->json && !options->report.full_names;
}

static bool set_filter(struct presentation *presentation, const struct options *options)
{
    const struct profile_options *report = &options->report;
    struct filter *filter = &presentation->samples.filter;

    presentation->samples.by_thread = report->by_thread;
    presentation->samples.thread_frames = report->by_thread && presentation->format != FORMAT_PPROF;
    presentation->samples.keep_allocator = report->keep_allocator;
    presentation->samples.keep_plumbing = report->no_fold || !folds_plumbing(presentation->format);
    presentation->samples.short_names = has_short_names(presentation->format, options);
    presentation->display.full_names = report->full_names;
    presentation->display.unfolded = report->no_fold;
    return set_regex(presentation, "--focus", report->focus, &filter->focus) &&
           set_regex(presentation, "--ignore", report->ignore, &filter->ignore) &&
           set_regex(presentation, "--hide", report->hide, &filter->hide) &&
           set_regex(presentation, "--show", report->show, &filter->show);
}

/* True if the options cannot apply to a profile that is written unchanged. */
static bool changes_content(const struct options *options)
{
    const struct profile_options *report = &options->report;

    return options->base || report->focus || report->ignore || report->hide || report->show ||
           report->unit || report->value || report->rows || report->by_thread ||
           report->keep_allocator || report->no_fold || report->full_names || report->depth;
}

/* What the reader of the output can show. */
static void set_terminal(struct display *display, bool to_stdout)
{
    struct winsize size;

    display->utf8 = locale_is_utf8();
    display->colors = to_stdout && isatty(STDOUT_FILENO);
    if (display->colors && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        display->width = size.ws_col;
}

static bool can_write_format(struct presentation *presentation, const struct options *options)
{
    bool to_stdout = options_to_stdout(options);

    if (format_is_binary(presentation->format) && to_stdout && isatty(STDOUT_FILENO)) {
        message("this format cannot be written to a terminal: use -o FILE");
        return false;
    }
    if (format_is_unchanged(presentation->format) && changes_content(options)) {
        message("the formats raw and symbolized contain the whole profile: "
                "choose another format (-f) for --base, --focus and similar options");
        return false;
    }
    if (presentation->format == FORMAT_SVG &&
        !graphviz_find(presentation->dot, sizeof presentation->dot)) {
        message("format svg needs the program dot, which is not installed (package graphviz): "
                "use -o FILE.dot, or -o FILE.html for a flame graph");
        return false;
    }
    set_terminal(&presentation->display, to_stdout);
    return true;
}

bool presentation_init(struct presentation *presentation, const struct options *options,
                       enum format fallback)
{
    const struct profile_options *report = &options->report;

    memset(presentation, 0, sizeof *presentation);
    presentation->display.title = presentation->title;
    presentation->no_inlines = report->no_inlines;
    presentation->debuginfod = report->debuginfod;
    return set_format(presentation, options, fallback) && set_unit(presentation, report->unit) &&
           set_display_value(presentation, report->value) && set_rows(presentation, report->rows) &&
           set_depth(presentation, report->depth) && set_filter(presentation, options) &&
           set_view(presentation, options) && can_write_format(presentation, options);
}
