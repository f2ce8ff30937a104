#include "profile/views/listing.h"
#include "base/text.h"
#include "profile/symbols/source_file.h"
#include "profile/views/top.h"

#include <errno.h>
#include <string.h>

/* Lines around those that allocate; further apart, the lines between are left out. */
enum { CONTEXT_LINES = 3 };

struct listing {
    const struct samples *samples;
    const struct display *display;
    const struct symbols_options *options;
    struct top functions, lines; /* the rows of lines in the order of their functions */
    FILE *out;
};

static const struct function *row_function(const struct listing *listing, const struct top_row *row)
{
    return &listing->samples->locations.functions[row->function];
}

static int by_place(const void *a, const void *b, void *data)
{
    const struct top_row *x = a, *y = b;
    const struct listing *listing = data;
    int order;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    order = strcmp(row_function(listing, x)->file, row_function(listing, y)->file);
    return order ? order : x->line < y->line ? -1 : x->line > y->line;
}

static bool row_is_of(const struct listing *listing, const struct top_row *x,
                      const struct top_row *y)
{
    return x->group == y->group &&
           strcmp(row_function(listing, x)->file, row_function(listing, y)->file) == 0;
}

/* Finds the lines of a function. Returns their number. */
static size_t find_lines(const struct listing *listing, const struct top_row *function,
                         const struct top_row **first)
{
    const struct top *lines = &listing->lines;
    size_t low = 0, high = lines->count, end;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct top_row *row = &lines->rows[middle];
        if (row->group < function->group ||
            (row->group == function->group &&
             strcmp(row_function(listing, row)->file, row_function(listing, function)->file) < 0))
            low = middle + 1;
        else
            high = middle;
    }
    for (end = low; end < lines->count && row_is_of(listing, &lines->rows[end], function);)
        end++;
    *first = &lines->rows[low];
    return end - low;
}

static bool has_amount(const struct top_row *row)
{
    return row->whole.now || row->whole.base;
}

/* Formats an amount, in a comparison its growth; "." for none. */
static const char *list_amount(const struct listing *listing, const struct amount *amount,
                               char out[DISPLAY_CHANGE_SIZE])
{
    double number = (double)amount_growth(amount);

    if (number == 0)
        return ".";
    return listing->samples->compares ? display_change(listing->display, number, out)
                                      : display_number(listing->display, number, out);
}

static void write_line_numbers(const struct listing *listing, const struct top_row *row,
                               unsigned line)
{
    static const struct top_row none;
    char flat[DISPLAY_CHANGE_SIZE], cum[DISPLAY_CHANGE_SIZE];

    row = row ? row : &none;
    fprintf(listing->out, "%11s %11s ", list_amount(listing, &row->flat, flat),
            list_amount(listing, &row->whole, cum));
    if (line)
        fprintf(listing->out, "%7u  ", line);
    else
        fprintf(listing->out, "%7s  ", "?");
}

/* Lines without a file: the amounts, and why there is nothing else. */
static void write_bare_lines(const struct listing *listing, const struct top_row *rows,
                             size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (has_amount(&rows[i])) {
            write_line_numbers(listing, &rows[i], rows[i].line);
            fputc('\n', listing->out);
        }
}

/* Returns the first line that belongs to a row: some lines before it, but not those before. */
static size_t context_start(size_t line, size_t written)
{
    size_t start = line > CONTEXT_LINES ? line - CONTEXT_LINES : 1;

    return start > written ? start : written + 1;
}

static void write_source_lines(const struct listing *listing, const struct source_file *source,
                               size_t from, size_t to)
{
    for (size_t i = from; i <= to && i <= source->line_count; i++) {
        write_line_numbers(listing, NULL, (unsigned)i);
        source_file_write_line(source, i, listing->out);
        fputc('\n', listing->out);
    }
}

/* Writes the lines from the start of the function to the last one that allocates. */
static void write_annotated(const struct listing *listing, const struct source_file *source,
                            const struct top_row *rows, size_t count, unsigned start)
{
    size_t written = 0;

    if (start && start <= source->line_count) {
        write_source_lines(listing, source, start, start);
        written = start;
    }
    for (size_t i = 0; i < count; i++) {
        size_t line = rows[i].line, from = context_start(line, written);
        if (!has_amount(&rows[i]) || line == 0 || line > source->line_count || line < written)
            continue;
        if (written && from > written + 1)
            fprintf(listing->out, "%31s  ...\n", "");
        if (line > written)
            write_source_lines(listing, source, from, line - 1);
        write_line_numbers(listing, &rows[i], (unsigned)line);
        source_file_write_line(source, line, listing->out);
        fputc('\n', listing->out);
        written = line;
    }
    if (written)
        write_source_lines(listing, source, written + 1, written + CONTEXT_LINES);
}

/* The rows that the file cannot have: their line is unknown, or behind its end. */
static void write_lost_lines(const struct listing *listing, const struct source_file *source,
                             const struct top_row *rows, size_t count)
{
    bool behind = false;

    for (size_t i = 0; i < count; i++) {
        if (!has_amount(&rows[i]) || (rows[i].line && rows[i].line <= source->line_count))
            continue;
        behind |= rows[i].line != 0;
        write_line_numbers(listing, &rows[i], rows[i].line);
        fputc('\n', listing->out);
    }
    if (behind)
        fprintf(listing->out, "this file has only %zu lines: it is another version\n",
                source->line_count);
}

static void write_function_head(const struct listing *listing, const struct top_row *row)
{
    const struct function *function = row_function(listing, row);
    const struct amount amount = samples_whole(listing->samples, listing->display->value);
    double whole = (double)(listing->samples->compares ? amount.base : amount.now);
    char flat[DISPLAY_CHANGE_SIZE], cum[DISPLAY_CHANGE_SIZE];

    fputc('\n', listing->out);
    text_write_clean(listing->out, samples_shown_name(listing->samples, function), "");
    fputs(" in ", listing->out);
    text_write_clean(listing->out, *function->file ? function->file : "an unknown file", "");
    fprintf(listing->out, "\n%11s %11s  %.1f%% of the whole%s\n",
            list_amount(listing, &row->flat, flat), list_amount(listing, &row->whole, cum),
            display_percent((double)amount_growth(&row->whole), whole),
            listing->samples->compares ? " before" : "");
}

/* Returns where a function begins, if that is one line above all that allocate; or 0. */
static unsigned start_of(const struct listing *listing, const struct top_row *rows, size_t count)
{
    unsigned start = count ? row_function(listing, &rows[0])->start_line : 0;

    for (size_t i = 0; i < count; i++)
        if (row_function(listing, &rows[i])->start_line != start ||
            (rows[i].line && rows[i].line <= start))
            return 0;
    return start;
}

static bool write_function(const struct listing *listing, const struct top_row *row)
{
    const struct top_row *lines;
    size_t count = find_lines(listing, row, &lines);
    const char *path = row_function(listing, row)->file;
    struct source_file source;
    int err = source_file_read(&source, listing->options, path);

    write_function_head(listing, row);
    if (err == 0) {
        write_annotated(listing, &source, lines, count, start_of(listing, lines, count));
        write_lost_lines(listing, &source, lines, count);
    } else {
        write_bare_lines(listing, lines, count);
        if (err == EPERM)
            fputs("the source file is not shown: not everybody may read it\n", listing->out);
        else if (*path)
            fprintf(listing->out, "the source file is not here: %s\n", strerror(err));
    }
    source_file_free(&source);
    return err != ENOMEM;
}

static bool is_listed(const struct listing *listing, const struct top_row *row)
{
    const regex_t *list = listing->display->list;
    const struct function *function = row_function(listing, row);

    return has_amount(row) &&
           (filter_matches(list, function->name) ||
            filter_matches(list, samples_shown_name(listing->samples, function)));
}

static void write_list_headings(const struct listing *listing)
{
    bool compares = listing->samples->compares;

    fprintf(listing->out, "%11s %11s %7s  %s\n", compares ? "growth" : "flat", "cum", "line",
            "source");
}

static bool write_functions(const struct listing *listing)
{
    size_t listed = 0, left = 0;

    for (size_t i = 0; i < listing->functions.count; i++) {
        const struct top_row *row = &listing->functions.rows[i];
        if (!is_listed(listing, row))
            continue;
        if (listing->display->rows && listed == listing->display->rows) {
            left++;
            continue;
        }
        if (!listed++)
            write_list_headings(listing);
        if (!write_function(listing, row))
            return false;
    }
    if (left)
        fprintf(listing->out, "\nand %zu more function%s that match\n", left, left == 1 ? "" : "s");
    if (!listed)
        fputs("no function of the profile matches --list\n", listing->out);
    return true;
}

bool listing_write(const struct samples *samples, const struct display *display,
                   const struct symbols_options *options, FILE *out)
{
    struct listing listing = {
        .samples = samples, .display = display, .options = options, .out = out};
    bool good = top_make_by(&listing.functions, samples, display, KEY_FILE) &&
                top_make_by(&listing.lines, samples, display, KEY_LINE);

    if (good) {
        qsort_r(listing.lines.rows, listing.lines.count, sizeof *listing.lines.rows, by_place,
                &listing);
        top_head_write(samples, display, &listing.functions.total, &listing.functions.objects, out);
        good = write_functions(&listing);
    }
    free(listing.functions.rows);
    free(listing.lines.rows);
    return good;
}
