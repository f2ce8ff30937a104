#include "profile/views/pprof.h"
#include "base/library.h"
#include "base/list.h"
#include "base/text.h"
#include "base/util.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/*
 * Writes messages in the wire format of Protocol Buffers
 * (protobuf.dev/programming-guides/encoding): only the parts that pprof's
 * profile.proto needs.
 */

/* A message that is being written; a struct of zeros is an empty one. */
struct wire {
    unsigned char *bytes;
    size_t len, capacity;
    bool no_memory;
};

enum { WIRE_VARINT = 0, WIRE_LENGTH = 2, VARINT_MAX = 10, WIRE_FIRST = 256 };

/* Returns space for len more bytes, or NULL. */
static unsigned char *wire_reserve(struct wire *wire, size_t len)
{
    size_t capacity = wire->capacity ? wire->capacity : WIRE_FIRST;
    unsigned char *moved;

    if (wire->no_memory || len > SIZE_MAX / 4 - wire->len)
        return NULL;
    while (capacity < wire->len + len)
        capacity *= 2;
    if (capacity != wire->capacity) {
        moved = realloc(wire->bytes, capacity);
        if (!moved) {
            wire->no_memory = true;
            return NULL;
        }
        wire->bytes = moved;
        wire->capacity = capacity;
    }
    return wire->bytes + wire->len;
}

/* Adds a bare varint, as in packed fields. */
static void wire_varint(struct wire *wire, uint64_t value)
{
    unsigned char *at = wire_reserve(wire, VARINT_MAX);

    if (!at)
        return;
    for (; value >= 0x80; value >>= 7)
        *at++ = (unsigned char)(value | 0x80);
    *at++ = (unsigned char)value;
    wire->len = (size_t)(at - wire->bytes);
}

/* Adds an integer field; 0 is the default and is left out. */
static void wire_number(struct wire *wire, unsigned field, uint64_t value)
{
    if (value == 0)
        return;
    wire_varint(wire, (uint64_t)field << 3 | WIRE_VARINT);
    wire_varint(wire, value);
}

static void wire_bytes(struct wire *wire, unsigned field, const void *bytes, size_t len)
{
    unsigned char *at;

    wire_varint(wire, (uint64_t)field << 3 | WIRE_LENGTH);
    wire_varint(wire, len);
    at = wire_reserve(wire, len);
    if (!at || len == 0)
        return;
    memcpy(at, bytes, len);
    wire->len += len;
}

/* Adds a message in a field. */
static void wire_message(struct wire *wire, unsigned field, const struct wire *message)
{
    wire->no_memory |= message->no_memory;
    wire_bytes(wire, field, message->bytes, message->len);
}

/* Empties the message and keeps its memory. */
static void wire_reset(struct wire *wire)
{
    wire->len = 0;
}

static void wire_free(struct wire *wire)
{
    free(wire->bytes);
    memset(wire, 0, sizeof *wire);
}

/* Writes a gzip stream (RFC 1952) through zlib, which is loaded when it is first needed. */

struct gzip;

enum { GZIP_BUFFER = 64 << 10, GZIP_FORMAT = 16 }; /* added to windowBits: gzip, not zlib */

struct gzip {
    z_stream stream;
    FILE *out;
    __typeof__(deflate) *deflate;
    __typeof__(deflateEnd) *end;
    bool good;
    unsigned char buffer[GZIP_BUFFER];
};

static bool load_zlib(struct gzip *gzip)
{
    void *library = library_open("libz.so.1");
    __typeof__(deflateInit2_) *init;

    if (!library)
        return false;
    init = LIBRARY_FUNCTION(library, deflateInit2_);
    gzip->deflate = LIBRARY_FUNCTION(library, deflate);
    gzip->end = LIBRARY_FUNCTION(library, deflateEnd);
    return init && gzip->deflate && gzip->end &&
           init(&gzip->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + GZIP_FORMAT,
                MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY, ZLIB_VERSION, (int)sizeof gzip->stream) == Z_OK;
}

/*
 * Opens a stream whose output goes to out. NULL: zlib (libz.so.1) is not
 * installed, or out of memory.
 */
static struct gzip *gzip_open(FILE *out)
{
    struct gzip *gzip = calloc(1, sizeof *gzip);

    if (!gzip)
        return NULL;
    gzip->out = out;
    gzip->good = true;
    if (load_zlib(gzip))
        return gzip;
    free(gzip);
    return NULL;
}

static void deflate_input(struct gzip *gzip, int flush)
{
    int rc;

    do {
        gzip->stream.next_out = gzip->buffer;
        gzip->stream.avail_out = sizeof gzip->buffer;
        rc = gzip->deflate(&gzip->stream, flush);
        if (rc == Z_STREAM_ERROR)
            gzip->good = false;
        fwrite(gzip->buffer, 1, sizeof gzip->buffer - gzip->stream.avail_out, gzip->out);
    } while (gzip->good && gzip->stream.avail_out == 0);
    if (flush == Z_FINISH && rc != Z_STREAM_END)
        gzip->good = false;
}

/* Errors of zlib are in gzip->good, those of out the caller's to check. */
static void gzip_write(struct gzip *gzip, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    while (len > 0 && gzip->good) {
        uInt part = len < INT_MAX ? (uInt)len : INT_MAX;
        gzip->stream.next_in = (unsigned char *)at;
        gzip->stream.avail_in = part;
        deflate_input(gzip, Z_NO_FLUSH);
        at += part;
        len -= part;
    }
}

/* Field numbers of profile.proto. */
enum profile_field {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING,
    PROFILE_TIME_NANOS = 9,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD,
    PROFILE_COMMENT,
    PROFILE_DEFAULT_SAMPLE_TYPE,
};
enum { VALUE_TYPE = 1, VALUE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_STRING, LABEL_NUMBER, LABEL_UNIT };
enum {
    MAPPING_ID = 1,
    MAPPING_START,
    MAPPING_LIMIT,
    MAPPING_OFFSET,
    MAPPING_FILE,
    MAPPING_BUILD_ID,
    MAPPING_HAS_FUNCTIONS,
    MAPPING_HAS_FILES,
    MAPPING_HAS_LINES,
    MAPPING_HAS_INLINES,
};
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_NUMBER };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_LINKAGE, FUNCTION_FILE, FUNCTION_START_LINE };

struct pprof {
    const struct samples *samples;
    struct gzip *gzip;
    struct wire field, message, inner; /* nested; kept to reuse their memory */
    const char **strings;              /* sorted by their numbers */
    size_t string_count, string_capacity;
    struct table string_table;
    bool *used; /* locations that a sample has */
    bool no_memory;
};

static bool same_string(const void *ctx, uint32_t place, const void *key)
{
    const struct pprof *pprof = ctx;
    return strcmp(pprof->strings[place], key) == 0;
}

/* Returns the number of a string, which must live until the end; "" is 0. */
static uint64_t string_number(struct pprof *pprof, const char *text)
{
    uint64_t hash = table_hash_bytes(&pprof->string_table, text, strlen(text));
    uint32_t place = TABLE_NONE;

    if (LIST_GROW(pprof->strings, pprof->string_capacity, pprof->string_count)) {
        place = table_put(&pprof->string_table, hash, same_string, pprof, text,
                          (uint32_t)pprof->string_count);
    }
    if (place == TABLE_NONE) {
        pprof->no_memory = true;
        return 0;
    }
    if (place == pprof->string_count)
        pprof->strings[pprof->string_count++] = text;
    return place;
}

/* Writes the field of the whole profile that `message` contains, and empties it. */
static void write_field(struct pprof *pprof, unsigned field)
{
    wire_reset(&pprof->field);
    wire_message(&pprof->field, field, &pprof->message);
    wire_reset(&pprof->message);
    if (!pprof->field.no_memory)
        gzip_write(pprof->gzip, pprof->field.bytes, pprof->field.len);
    else
        pprof->no_memory = true;
}

static void emit_number(struct pprof *pprof, unsigned field, uint64_t value)
{
    wire_reset(&pprof->field);
    wire_number(&pprof->field, field, value);
    gzip_write(pprof->gzip, pprof->field.bytes, pprof->field.len);
}

static void emit_value_type(struct pprof *pprof, unsigned field, const char *type, const char *unit)
{
    wire_number(&pprof->message, VALUE_TYPE, string_number(pprof, type));
    wire_number(&pprof->message, VALUE_UNIT, string_number(pprof, unit));
    write_field(pprof, field);
}

/* Accumulated numbers exist only with opt.prof_accum; columns of zeros would mislead. */
static enum value first_value(const struct pprof *pprof)
{
    return pprof->samples->accumulates ? VALUE_TOTAL_OBJECTS : VALUE_OBJECTS;
}

static void add_label(struct pprof *pprof, const char *key, const char *text, uint64_t number,
                      const char *unit)
{
    wire_reset(&pprof->inner);
    wire_number(&pprof->inner, LABEL_KEY, string_number(pprof, key));
    wire_number(&pprof->inner, LABEL_STRING, string_number(pprof, text));
    wire_number(&pprof->inner, LABEL_NUMBER, number);
    wire_number(&pprof->inner, LABEL_UNIT, string_number(pprof, unit));
    wire_message(&pprof->message, SAMPLE_LABEL, &pprof->inner);
}

static void write_sample(struct pprof *pprof, const struct sample *sample)
{
    const struct samples *samples = pprof->samples;
    const uint32_t *calls = &samples->calls[sample->first];
    enum value value = first_value(pprof);

    /* A stack without a growth in any of its values is not part of a difference. */
    while (value < VALUE_KINDS && amount_growth(&sample->values[value]) == 0)
        value++;
    if (value == VALUE_KINDS)
        return;
    wire_reset(&pprof->inner);
    for (uint32_t i = 0; i < sample->depth; i++) {
        wire_varint(&pprof->inner, (uint64_t)calls[i] + 1);
        pprof->used[calls[i]] = true;
    }
    wire_message(&pprof->message, SAMPLE_LOCATION, &pprof->inner);
    wire_reset(&pprof->inner);
    for (value = first_value(pprof); value < VALUE_KINDS; value++)
        wire_varint(&pprof->inner, (uint64_t)amount_growth(&sample->values[value]));
    wire_message(&pprof->message, SAMPLE_VALUE, &pprof->inner);
    if (sample->size && !samples->compares)
        add_label(pprof, "bytes", "", sample->size, "bytes");
    if (sample->thread != TABLE_NONE) {
        const struct sample_thread *thread = &samples->threads[sample->thread];
        if (*thread->name)
            add_label(pprof, "thread", thread->name, 0, "");
        add_label(pprof, "thread_id", "", thread->uid, "");
    }
    write_field(pprof, PROFILE_SAMPLE);
}

static void write_mapping(struct pprof *pprof, size_t number, struct arena *arena)
{
    const struct location_mapping *mapping = &pprof->samples->locations.mappings[number];
    struct wire *message = &pprof->message;
    char text[BUILD_ID_TEXT];
    const char *build_id;

    build_id_text(&mapping->build_id, text);
    build_id = arena_string(arena, text, strlen(text));

    wire_number(message, MAPPING_ID, number + 1);
    wire_number(message, MAPPING_START, mapping->start);
    wire_number(message, MAPPING_LIMIT, mapping->end);
    wire_number(message, MAPPING_OFFSET, mapping->offset);
    wire_number(message, MAPPING_FILE, string_number(pprof, mapping->path));
    wire_number(message, MAPPING_BUILD_ID, string_number(pprof, build_id ? build_id : ""));
    wire_number(message, MAPPING_HAS_FUNCTIONS, mapping->has_functions);
    wire_number(message, MAPPING_HAS_FILES, mapping->has_files);
    wire_number(message, MAPPING_HAS_LINES, mapping->has_lines);
    wire_number(message, MAPPING_HAS_INLINES, mapping->has_inlines);
    write_field(pprof, PROFILE_MAPPING);
}

static void write_location(struct pprof *pprof, size_t number)
{
    const struct locations *locations = &pprof->samples->locations;
    const struct location *location = &locations->list[number];
    /*
     * pprof looks for its own symbols in a mapping without known data
     * (has_functions not set): its locations get no lines.
     */
    const bool is_for_pprof = !location->named && location->mapping != TABLE_NONE &&
                              !locations->mappings[location->mapping].has_functions;

    if (!pprof->used[number])
        return;
    wire_number(&pprof->message, LOCATION_ID, number + 1);
    if (location->mapping != TABLE_NONE)
        wire_number(&pprof->message, LOCATION_MAPPING, (uint64_t)location->mapping + 1);
    wire_number(&pprof->message, LOCATION_ADDRESS, location->address);
    for (uint32_t i = 0; i < location->count && !is_for_pprof; i++) {
        const struct location_line *line = &locations->lines[location->first + i];
        wire_reset(&pprof->inner);
        wire_number(&pprof->inner, LINE_FUNCTION, (uint64_t)line->function + 1);
        wire_number(&pprof->inner, LINE_NUMBER, line->line);
        wire_message(&pprof->message, LOCATION_LINE, &pprof->inner);
    }
    write_field(pprof, PROFILE_LOCATION);
}

static void write_all_fields(struct pprof *pprof, const struct display *display,
                             const struct pprof_info *info)
{
    const struct locations *locations = &pprof->samples->locations;
    struct arena build_ids = {0};

    string_number(pprof, "");
    for (enum value value = first_value(pprof); value < VALUE_KINDS; value++) {
        bool bytes = value == VALUE_BYTES || value == VALUE_TOTAL_BYTES;
        emit_value_type(pprof, PROFILE_SAMPLE_TYPE, value_name(value), bytes ? "bytes" : "count");
    }
    emit_value_type(pprof, PROFILE_PERIOD_TYPE, "space", "bytes");
    emit_number(pprof, PROFILE_PERIOD, pprof->samples->period);
    emit_number(pprof, PROFILE_DEFAULT_SAMPLE_TYPE,
                string_number(pprof, value_name(display->value)));
    for (size_t i = 0; i < pprof->samples->count; i++)
        write_sample(pprof, &pprof->samples->list[i]);
    for (size_t i = 0; i < locations->mapping_count; i++)
        write_mapping(pprof, i, &build_ids);
    for (size_t i = 0; i < locations->count; i++)
        write_location(pprof, i);
    for (size_t i = 0; i < locations->function_count; i++) {
        const struct function *function = &locations->functions[i];
        const char *linkage = *function->linkage ? function->linkage : function->name;
        wire_number(&pprof->message, FUNCTION_ID, i + 1);
        wire_number(&pprof->message, FUNCTION_NAME, string_number(pprof, function->name));
        wire_number(&pprof->message, FUNCTION_LINKAGE, string_number(pprof, linkage));
        wire_number(&pprof->message, FUNCTION_FILE, string_number(pprof, function->file));
        wire_number(&pprof->message, FUNCTION_START_LINE, function->start_line);
        write_field(pprof, PROFILE_FUNCTION);
    }
    emit_number(pprof, PROFILE_TIME_NANOS, info->time_ns);
    for (size_t i = 0; i < info->comment_count; i++)
        emit_number(pprof, PROFILE_COMMENT, string_number(pprof, info->comments[i]));
    for (size_t i = 0; i < pprof->string_count; i++) {
        /* Strings of a protocol buffer are UTF-8; names of a target may contain anything. */
        AUTO_FREE char *clean = text_copy_clean(pprof->strings[i], "");
        pprof->no_memory |= !clean;
        if (!clean)
            continue;
        wire_reset(&pprof->field);
        wire_bytes(&pprof->field, PROFILE_STRING, clean, strlen(clean));
        if (!pprof->field.no_memory)
            gzip_write(pprof->gzip, pprof->field.bytes, pprof->field.len);
    }
    arena_free(&build_ids);
}

enum pprof_result pprof_write(const struct samples *samples, const struct display *display,
                              const struct pprof_info *info, FILE *out)
{
    struct pprof pprof = {.samples = samples, .gzip = gzip_open(out)};

    if (!pprof.gzip)
        return PPROF_NO_ZLIB;
    table_init(&pprof.string_table);
    pprof.used = calloc(samples->locations.count + 1, sizeof *pprof.used);
    if (pprof.used)
        write_all_fields(&pprof, display, info);
    pprof.gzip->stream.avail_in = 0;
    if (pprof.gzip->good)
        deflate_input(pprof.gzip, Z_FINISH);
    pprof.no_memory |= !pprof.gzip->good || !pprof.used;
    pprof.gzip->end(&pprof.gzip->stream);
    free(pprof.gzip);
    pprof.no_memory |= pprof.field.no_memory || pprof.message.no_memory || pprof.inner.no_memory;
    wire_free(&pprof.field);
    wire_free(&pprof.message);
    wire_free(&pprof.inner);
    free(pprof.strings);
    free(pprof.used);
    table_free(&pprof.string_table);
    return pprof.no_memory ? PPROF_NO_MEMORY : PPROF_DONE;
}
