#include "cli/output/peek_view.h"
#include "base/text.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/message.h"
#include "cli/output/advice.h"
#include "cli/output/columns.h"
#include "cli/output/wrap.h"

#include <math.h>
#include <string.h>

enum { ANSWER_PARTS = 4, EXAMPLES = 3 };
enum { WHAT_COLUMNS = 100, WHAT_LEAST = 20, WHAT_BYTES = 4 * WHAT_COLUMNS + 8 };
static const double SHARE_LEAST = 0.05; /* of a row in percent: below it is shown as 0.0 % */

enum { SHAPE_SHARE = 4 }; /* a pattern of fewer than a quarter says nothing */
enum { COUNT_TEXT = 40, NUMBER_COLUMNS = 5, NUMBER_CELL = 40 };

/* ---- words ---- */

/* The objects that are in memory, which all shares are of. */
static struct peek_row in_memory(const struct peek *peek)
{
    struct peek_row sum = {.objects = peek->objects, .bytes = peek->bytes};

    for (size_t i = 0; i < peek->total_count; i++)
        if (peek->totals[i].absent) {
            sum.objects -= peek->totals[i].objects;
            sum.bytes -= peek->totals[i].bytes;
        }
    return sum;
}

static size_t rows_in_memory(const struct peek *peek)
{
    size_t count = peek->row_count;

    while (count && peek->rows[count - 1].absent)
        count--;
    return count;
}

static double percentage(double part, double all)
{
    return all > 0 ? 100 * part / all : 0;
}

/* "812", "704 thousand", "9.8 million" */
static const char *count_words(double count, char out[COUNT_TEXT])
{
    if (count < 1e4)
        snprintf(out, COUNT_TEXT, "%.0f", count);
    else if (count < 999.5e3)
        snprintf(out, COUNT_TEXT, "%.0f thousand", count / 1e3);
    else
        snprintf(out, COUNT_TEXT, "%.*f million", count < 99.95e6, count / 1e6);
    return out;
}

/* What the objects of a row are, without their bytes. */
static void add_kind(struct line *line, const struct peek_row *row)
{
    switch (row->kind) {
    case CONTENT_POINTERS:
        line_printf(line, "pointers to ");
        break;
    case CONTENT_NUMBERS:
        line_printf(line, "small numbers");
        break;
    case CONTENT_RANDOM:
        line_printf(line, "%s", row->detail[0] ? "compressed: " : "random bytes");
        break;
    default:
        line_printf(line, "%s%s", content_kind_name(row->kind),
                    !row->detail[0]             ? ""
                    : row->kind == CONTENT_TEXT ? ": "
                                                : " ");
    }
    line_add(line, row->detail);
    if (row->in_middle)
        line_printf(line, " in the middle");
    if (row->at)
        line_printf(line, " at +%u", row->at);
}

static void write_shown(const struct peek_sample *sample, size_t len, FILE *out)
{
    char text[PEEK_SHOWN + 1];

    len = len < sample->shown_len ? len : sample->shown_len;
    memcpy(text, sample->shown, len);
    text[len] = '\0';
    text_write_clean(out, text, "");
}

/* "67 % share a beginning, 33 % another"; "67 % begin with "user:"" */
static void print_prefixes(const struct peek_view *view, const struct peek_row *row, FILE *out)
{
    static const char *const words[PEEK_PREFIXES] = {"share a beginning", "another", "a third"};

    for (size_t i = 0; i < row->prefix_count; i++) {
        const struct peek_prefix *prefix = &row->prefixes[i];
        double share = percentage((double)prefix->hits, (double)row->hits);
        fprintf(out, "%s%.0f %% %s", i ? ", " : "; ", share,
                view->show_bytes ? "begin with \"" : words[i]);
        if (!view->show_bytes)
            continue;
        write_shown(&view->peek->samples[row->first + prefix->first], prefix->len, out);
        fputc('"', out);
    }
}

/* A pattern of nothing but zeros says nothing: what the row is about comes behind it. */
static bool tells_shape(const struct peek_row *row)
{
    return row->shape_hits * SHAPE_SHARE >= row->hits && row->kind != CONTENT_TYPE &&
           row->shape[strspn(row->shape, "0")];
}

/* Of a long name, the columns that are left show the beginning; what the words are comes behind. */
static void print_what(const struct peek_view *view, const struct peek_row *row, size_t indent,
                       FILE *out)
{
    AUTO_FREE char *behind = NULL;
    size_t len, most = wrap_columns();
    FILE *rest = open_memstream(&behind, &len);
    char text[WHAT_BYTES];
    struct line line;

    if (!rest)
        return;
    if (tells_shape(row)) { /* "; 73 % p p n 0" */
        fprintf(rest, "; %.0f %%", percentage((double)row->shape_hits, (double)row->hits));
        for (const char *p = row->shape; *p; p++)
            fprintf(rest, " %c", *p);
    }
    print_prefixes(view, row, rest);
    if (fclose(rest))
        return;
    most = amount_above(most, indent + columns_of(behind));
    line_init(&line, text, sizeof text,
              most < WHAT_LEAST     ? WHAT_LEAST
              : most < WHAT_COLUMNS ? most
                                    : WHAT_COLUMNS);
    add_kind(&line, row);
    fprintf(out, "%s%s\n", text, behind);
}

/* ---- the answer ---- */

static void print_heap_answer(const struct peek_view *view, FILE *to)
{
    const struct peek *peek = view->peek;
    const struct peek_row all = in_memory(peek);
    char name[PROCESS_TEXT], bytes[UNITS_TEXT], objects[COUNT_TEXT], text[WHAT_BYTES];
    struct wrap wrap;
    FILE *out = wrap_begin(&wrap, to);

    fprintf(out, "%s%s: %s in %s object%s", message_process(view->name, view->pid, name),
            view->origin ? view->origin : "", units_bytes(all.bytes, bytes),
            count_words(all.objects, objects), all.objects == 1 ? "" : "s");
    for (size_t i = 0; i < peek->total_count && i < ANSWER_PARTS; i++) {
        const struct peek_row *row = &peek->totals[i];
        struct line line;
        double share = percentage(row->bytes, all.bytes);
        if (row->absent || (i && share < 1))
            break;
        line_init(&line, text, sizeof text, WHAT_COLUMNS / 2);
        add_kind(&line, row);
        fprintf(out, "%s%.0f %% %s", i ? ", " : ": ", share, text);
    }
    wrap_end(&wrap, 0, to);
}

/* ---- the table ---- */

static const char *const number_headings[NUMBER_COLUMNS] = {"SIZE", "OBJECTS", "+-", "BYTES",
                                                            "SHARE"};

static void fill_numbers(const struct peek_view *view, const struct peek_row *row,
                         char cells[NUMBER_COLUMNS][NUMBER_CELL])
{
    double all = in_memory(view->peek).bytes;

    units_bytes((double)row->size, cells[0]);
    snprintf(cells[1], NUMBER_CELL, "%.0f", row->objects);
    snprintf(cells[2], NUMBER_CELL, "%.0f", ceil(row->objects_error));
    units_bytes(row->bytes, cells[3]);
    snprintf(cells[4], NUMBER_CELL, "%.1f %%", percentage(row->bytes, all));
}

static void print_numbers(const size_t widths[NUMBER_COLUMNS],
                          char cells[NUMBER_COLUMNS][NUMBER_CELL], FILE *out)
{
    for (size_t c = 0; c < NUMBER_COLUMNS; c++)
        fprintf(out, "%*s  ", (int)widths[c], cells[c]);
}

static void print_examples(const struct peek_view *view, const struct peek_row *row, FILE *out)
{
    size_t step = row->hits / EXAMPLES ? row->hits / EXAMPLES : 1;

    if (!view->show_bytes || row->kind == CONTENT_ZEROS)
        return;
    for (size_t i = 0; i < EXAMPLES && i * step < row->hits; i++) {
        const struct peek_sample *sample = &view->peek->samples[row->first + i * step];
        bool text = sample->content.kind == CONTENT_TEXT && sample->content.text_len;
        fprintf(out, "        %#llx  %s", (unsigned long long)sample->addr, text ? "\"" : "");
        if (text)
            write_shown(sample, PEEK_SHOWN, out);
        for (size_t k = 0; k < sample->shown_len && !text; k++)
            fprintf(out, "%s%02x", k && k % 8 == 0 ? " " : "", sample->shown[k]);
        fputs(text ? "\"\n" : "\n", out);
    }
}

static void print_rest(const struct peek *peek, size_t shown, FILE *out)
{
    const size_t rest = rows_in_memory(peek) - shown;
    char text[UNITS_TEXT], objects[COUNT_TEXT];
    double bytes = 0;

    for (size_t i = shown; i < shown + rest; i++)
        bytes += peek->rows[i].bytes;
    if (rest)
        fprintf(out, "and %zu more row%s: %s (--rows 0 shows all)\n", rest, rest == 1 ? "" : "s",
                units_bytes(bytes, text));
    for (size_t i = 0; i < peek->total_count; i++) {
        const struct peek_row *row = &peek->totals[i];
        if (row->absent)
            fprintf(out, "not in memory: %s in %s object%s, %s\n", units_bytes(row->bytes, text),
                    count_words(row->objects, objects), row->objects == 1 ? "" : "s", row->detail);
    }
    if (peek->unjudged > 0)
        fprintf(out, "not looked at: %s in objects of other sizes\n",
                units_bytes(peek->unjudged, text));
    if (peek->freed)
        fprintf(out, "left out: %zu object%s freed before the read\n", peek->freed,
                peek->freed == 1 ? "" : "s");
    if (peek->unresolved)
        fputs("some types have no names: there was no time left; raise --timeout\n", out);
    if (peek->pass.unsettled)
        fprintf(out, "left out: %zu slab%s that changed during the read\n", peek->pass.unsettled,
                peek->pass.unsettled == 1 ? "" : "s");
}

/* What the signs in the rows mean. */
static void print_peek_legend(const struct peek_view *view, size_t shown, FILE *out)
{
    bool shape = false;

    for (size_t i = 0; i < shown; i++)
        shape |= tells_shape(&view->peek->rows[i]);
    if (shape)
        fputs("p n 0: the commonest first words (8 bytes each): p pointer to memory, m pointer\n"
              "into a module, n small number, 0 zero, x other\n",
              out);
}

/* Without --rows: the largest, as long as their share is not 0. */
static size_t rows_shown(const struct peek_view *view)
{
    const struct peek *peek = view->peek;
    const size_t all = rows_in_memory(peek), most = view->rows < all ? view->rows : all;
    const double bytes = in_memory(peek).bytes;
    size_t count = 0;

    while (count < most && (view->rows_given || count == 0 ||
                            percentage(peek->rows[count].bytes, bytes) >= SHARE_LEAST))
        count++;
    return count;
}

static void print_peek_next(const struct peek_view *view, FILE *out)
{
    char command[ADVICE_COMMAND];

    if (view->origin)
        return;
    snprintf(command, sizeof command,
             view->show_bytes ? "jeattach leak %d" : "jeattach peek %d --show-bytes", view->pid);
    advice_print_next(
        command,
        view->show_bytes ? "this shows which of them grow, and which calls allocate them"
                         : "this shows the first bytes of three objects a row; they may be secrets",
        out);
}

void peek_print(const struct peek_view *view, FILE *out)
{
    const struct peek *peek = view->peek;
    size_t rows = rows_shown(view);
    size_t widths[NUMBER_COLUMNS], indent = 0;
    char cells[NUMBER_COLUMNS][NUMBER_CELL];

    print_heap_answer(view, out);
    if ((double)peek->judged == peek->objects)
        fprintf(out, "all %zu objects were looked at\n", peek->judged);
    else
        fprintf(out, "estimated from %zu random objects; +- is the margin of error (95 %%)\n",
                peek->judged);
    if (peek->pass.share > 0 && peek->pass.share < 1)
        fprintf(out, "random %.1f %% of the memory was read: all numbers are estimates\n",
                100 * peek->pass.share);

    for (size_t c = 0; c < NUMBER_COLUMNS; c++)
        widths[c] = strlen(number_headings[c]);
    for (size_t i = 0; i < rows; i++) {
        fill_numbers(view, &peek->rows[i], cells);
        for (size_t c = 0; c < NUMBER_COLUMNS; c++)
            widths[c] = strlen(cells[c]) > widths[c] ? strlen(cells[c]) : widths[c];
    }
    for (size_t c = 0; c < NUMBER_COLUMNS; c++) {
        snprintf(cells[c], NUMBER_CELL, "%s", number_headings[c]);
        indent += widths[c] + 2;
    }
    print_numbers(widths, cells, out);
    fputs("WHAT\n", out);
    for (size_t i = 0; i < rows; i++) {
        /* A row on a terminal continues below its last column. */
        struct wrap wrap;
        FILE *line = wrap_begin(&wrap, out);
        fill_numbers(view, &peek->rows[i], cells);
        print_numbers(widths, cells, line);
        print_what(view, &peek->rows[i], indent, line);
        wrap_end(&wrap, indent, out);
        print_examples(view, &peek->rows[i], out);
    }
    print_rest(peek, rows, out);
    print_peek_legend(view, rows, out);
    print_peek_next(view, out);
}

/* ---- JSON ---- */

static void shown_json(const char *name, const struct peek_sample *sample, size_t len,
                       struct json *json)
{
    char text[2 * PEEK_SHOWN + 1];
    bool is_text = sample->content.kind == CONTENT_TEXT && sample->content.text_len;

    len = len < sample->shown_len ? len : sample->shown_len;
    if (is_text)
        memcpy(text, sample->shown, len);
    for (size_t i = 0; i < len && !is_text; i++)
        snprintf(text + 2 * i, 3, "%02x", sample->shown[i]);
    text[is_text ? len : 2 * len] = '\0';
    json_text(json, is_text ? name : "hex", text);
}

static void prefixes_json(const struct peek_view *view, const struct peek_row *row,
                          struct json *json)
{
    json_list_begin(json, "prefixes");
    for (size_t i = 0; i < row->prefix_count; i++) {
        const struct peek_prefix *prefix = &row->prefixes[i];
        json_item_begin(json);
        JSON_MEMBERS(json, NUMBER("length", prefix->len), NUMBER("samples", prefix->hits));
        if (view->show_bytes)
            shown_json("text", &view->peek->samples[row->first + prefix->first], prefix->len, json);
        json_item_end(json);
    }
    json_list_end(json);
}

static void examples_json(const struct peek_view *view, const struct peek_row *row,
                          struct json *json)
{
    size_t step = row->hits / EXAMPLES ? row->hits / EXAMPLES : 1;

    if (!view->show_bytes || row->absent || row->kind == CONTENT_ZEROS)
        return;
    json_list_begin(json, "examples");
    for (size_t i = 0; i < EXAMPLES && i * step < row->hits; i++) {
        json_item_begin(json);
        shown_json("text", &view->peek->samples[row->first + i * step], PEEK_SHOWN, json);
        json_item_end(json);
    }
    json_list_end(json);
}

static void row_json(const struct peek_row *row, struct json *json)
{
    JSON_MEMBERS(json, TEXT("kind", row->absent ? "absent" : content_kind_name(row->kind)),
                 TEXT_OR_NULL("detail", row->detail), FLAG("in_middle", row->in_middle),
                 NUMBER("offset", row->at), NUMBER_IF(row->size, "size", row->size),
                 NUMBER("samples", row->hits), ROUNDED("objects", row->objects),
                 ROUNDED("objects_error", ceil(row->objects_error)), ROUNDED("bytes", row->bytes),
                 ROUNDED("bytes_error", ceil(row->bytes_error)));
}

static void sums_json(const char *name, const struct peek_row *rows, size_t count,
                      struct json *json)
{
    json_list_begin(json, name);
    for (size_t i = 0; i < count; i++) {
        json_item_begin(json);
        row_json(&rows[i], json);
        json_item_end(json);
    }
    json_list_end(json);
}

void peek_json(const struct peek_view *view, struct json *json)
{
    const struct peek *peek = view->peek;

    JSON_MEMBERS(json, ROUNDED("objects", peek->objects), ROUNDED("bytes", peek->bytes),
                 NUMBER("samples", peek->judged), NUMBER("freed_samples", peek->freed),
                 NUMBER("unsettled", peek->pass.unsettled),
                 NUMBER("read_percent", llround(100 * peek->pass.share)),
                 ROUNDED("unjudged_bytes", peek->unjudged),
                 FLAG("names_complete", !peek->unresolved), NUMBER("bytes_read", peek->bytes_read),
                 NUMBER("read_ns", peek->ns));
    sums_json("kinds", peek->kinds, peek->kind_count, json);
    sums_json("totals", peek->totals,
              peek->total_count < view->rows ? peek->total_count : view->rows, json);
    json_list_begin(json, "rows");
    for (size_t i = 0; i < peek->row_count && i < view->rows; i++) {
        json_item_begin(json);
        row_json(&peek->rows[i], json);
        JSON_MEMBERS(json, TEXT_OR_NULL("shape", peek->rows[i].shape),
                     NUMBER("shape_samples", peek->rows[i].shape_hits));
        prefixes_json(view, &peek->rows[i], json);
        examples_json(view, &peek->rows[i], json);
        json_item_end(json);
    }
    json_list_end(json);
}
