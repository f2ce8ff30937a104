#include "cli/message.h"
#include "run/graphviz.h"
#include "run/present.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Below half a percent a function is not listed, as in pprof; a flame graph has more room. */
static const double LEAST_ROW = 0.005, LEAST_FLAME = 0.0001;

static const struct {
    const char *name, *extension;
    bool binary;
} formats[] = {
    [FORMAT_RAW] = {"raw", ".heap", false},
    [FORMAT_SYMBOLIZED] = {"symbolized", ".symbolized", false},
    [FORMAT_TEXT] = {"text", ".txt", false},
    [FORMAT_FOLDED] = {"folded", ".folded", false},
    [FORMAT_PPROF] = {"pprof", ".pb.gz", true},
    [FORMAT_FLAME] = {"flame", ".html", false},
    [FORMAT_DOT] = {"dot", ".dot", false},
    [FORMAT_SVG] = {"svg", ".svg", false},
    [FORMAT_JSON] = {"json", ".json", false},
};

static const char *const units[] = {
    [UNIT_AUTO] = "auto", [UNIT_BYTES] = "B", [UNIT_KIB] = "KiB",
    [UNIT_MIB] = "MiB",   [UNIT_GIB] = "GiB",
};

static bool refuse(const char *option, const char *word, const char *choices)
{
    char clean[64];

    message("%s '%s': it is one of %s", option, message_clean(word, clean, sizeof clean), choices);
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static bool take_format(struct presentation *presentation, enum format fallback)
{
    const char *name = presentation->options->report.format;
    const char *output = presentation->options->output;

    presentation->format = fallback;
    for (enum format i = FORMAT_RAW; i < ARRAY_LEN(formats); i++)
        if (name ? strcmp(name, formats[i].name) == 0
                 : output && ends_with(output, formats[i].extension)) {
            presentation->format = i;
            return true;
        }
    return !name ||
           refuse("format", name, "raw, symbolized, text, folded, pprof, flame, dot, svg, json");
}

static bool take_unit(struct presentation *presentation)
{
    const char *name = presentation->options->report.unit;

    for (enum unit i = UNIT_AUTO; i < ARRAY_LEN(units); i++)
        if (!name || strcmp(name, units[i]) == 0) {
            presentation->display.unit = i;
            return true;
        }
    return refuse("unit", name, "auto, B, KiB, MiB, GiB");
}

static bool take_value(struct presentation *presentation)
{
    const char *name = presentation->options->report.value;

    presentation->display.value = VALUE_BYTES;
    if (!name)
        return true;
    for (enum value i = VALUE_TOTAL_OBJECTS; i < VALUE_KINDS; i++)
        if (strcmp(name, value_name(i)) == 0) {
            presentation->display.value = i;
            return true;
        }
    return refuse("value", name, "inuse_space, inuse_objects, alloc_space, alloc_objects");
}

/* A number of rows; 0 is all of them, however small. */
static bool take_rows(struct presentation *presentation)
{
    const char *text = presentation->options->report.rows;
    char *end;

    presentation->display.least = presentation->format == FORMAT_FLAME ? LEAST_FLAME : LEAST_ROW;
    if (!text)
        return true;
    errno = 0;
    presentation->display.rows = strtoul(text, &end, 10);
    if (errno || end == text || *end || *text < '0' || *text > '9')
        return refuse("rows", text, "the whole numbers; 0 is all");
    if (presentation->display.rows == 0 && presentation->format != FORMAT_FLAME)
        presentation->display.least = 0;
    return true;
}

static bool take_regex(struct presentation *presentation, const char *option, const char *text,
                       const regex_t **out)
{
    regex_t *regex = &presentation->regexes[presentation->regex_count];
    char reason[128];
    int rc;

    if (!text)
        return true;
    rc = regcomp(regex, text, REG_EXTENDED | REG_NOSUB);
    if (rc == 0) {
        presentation->regex_count++;
        *out = regex;
        return true;
    }
    regerror(rc, regex, reason, sizeof reason);
    message("%s is no regular expression: %s", option, reason);
    return false;
}

static bool take_filter(struct presentation *presentation)
{
    const struct profile_options *report = &presentation->options->report;
    struct filter *filter = &presentation->samples.filter;

    presentation->samples.by_thread = report->by_thread;
    presentation->samples.thread_frames = report->by_thread && presentation->format != FORMAT_PPROF;
    presentation->samples.keep_allocator = report->keep_allocator;
    return take_regex(presentation, "--focus", report->focus, &filter->focus) &&
           take_regex(presentation, "--ignore", report->ignore, &filter->ignore) &&
           take_regex(presentation, "--hide", report->hide, &filter->hide) &&
           take_regex(presentation, "--show", report->show, &filter->show);
}

/* What can only be done to a profile that is made into something else. */
static bool changes_content(const struct options *options)
{
    const struct profile_options *report = &options->report;

    return options->base || report->focus || report->ignore || report->hide || report->show ||
           report->unit || report->value || report->rows || report->by_thread ||
           report->keep_allocator;
}

static bool may_be_written(struct presentation *presentation)
{
    const char *output = presentation->options->output;
    bool to_stdout = output && strcmp(output, "-") == 0;
    bool unchanged =
        presentation->format == FORMAT_RAW || presentation->format == FORMAT_SYMBOLIZED;

    if (formats[presentation->format].binary && to_stdout && isatty(STDOUT_FILENO)) {
        message("this format is not for a terminal: use -o FILE");
        return false;
    }
    if (unchanged && changes_content(presentation->options)) {
        message("the formats raw and symbolized are the whole profile as it is: "
                "choose another with -f for --base, --focus and the like");
        return false;
    }
    if (presentation->format == FORMAT_SVG &&
        !graphviz_find(presentation->dot, sizeof presentation->dot)) {
        message("a graph as SVG is drawn by dot, which is not installed (package graphviz): "
                "use -o FILE.dot, or FILE.html for a flame graph");
        return false;
    }
    presentation->display.colors = to_stdout && isatty(STDOUT_FILENO);
    return true;
}

bool presentation_init(struct presentation *presentation, const struct options *options,
                       enum format fallback)
{
    memset(presentation, 0, sizeof *presentation);
    presentation->options = options;
    presentation->display.title = presentation->title;
    return take_format(presentation, fallback) && take_unit(presentation) &&
           take_value(presentation) && take_rows(presentation) && take_filter(presentation) &&
           may_be_written(presentation);
}

const char *presentation_extension(const struct presentation *presentation)
{
    return formats[presentation->format].extension;
}

void presentation_free(struct presentation *presentation)
{
    while (presentation->regex_count > 0)
        regfree(&presentation->regexes[--presentation->regex_count]);
}
