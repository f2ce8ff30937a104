/*
 * Writes a JSON document (RFC 8259) to a stream, member by member. All JSON of
 * the tool is written here. Each begin needs its end, in reverse order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    bool any;     /* the open object or list is not empty */
    bool compact; /* no blanks between members and items; json_begin clears it */
};

/* The document, which is an object; its end writes a newline. */
void json_begin(struct json *json, FILE *out);
void json_end(struct json *json);

/*
 * Members of an object. A text may come from a target: bytes that are no UTF-8
 * become U+FFFD; controls and the characters '<', '>' and '&' become \u escapes,
 * so that a document is safe in a terminal and inside <script>.
 */
void json_text(struct json *json, const char *name, const char *text);
/* The text, or null if it is NULL or empty. */
void json_text_or_null(struct json *json, const char *name, const char *text);
void json_number(struct json *json, const char *name, uint64_t value);
/* The number, or null if it is not known. */
void json_number_or_null(struct json *json, const char *name, bool known, uint64_t value);
void json_signed(struct json *json, const char *name, int64_t value);
/* The nearest integer; the largest or smallest int64_t if it is out of range. */
void json_rounded(struct json *json, const char *name, double value);
void json_bool(struct json *json, const char *name, bool value);
void json_null(struct json *json, const char *name);
/* A value that is JSON text already; its line ends and blanks stay. */
void json_raw(struct json *json, const char *name, const char *text, size_t len);

/* A member that is an object; the next members are in it. */
void json_object_begin(struct json *json, const char *name);
void json_object_end(struct json *json);
/* A member that is a list. */
void json_list_begin(struct json *json, const char *name);
void json_list_end(struct json *json);

/* Items of a list. json_item_begin: an object; the next members are in it. */
void json_item_begin(struct json *json);
void json_item_end(struct json *json);
void json_item_text(struct json *json, const char *text);
void json_item_signed(struct json *json, int64_t value);
void json_item_rounded(struct json *json, double value);

/*
 * A table of fields: each a name and its value, which decides how it is written. What is not known
 * is null; values behind _IF are only computed where the condition holds.
 */
enum field_kind {
    FIELD_NULL,
    FIELD_NUMBER,
    FIELD_SIGNED,
    FIELD_ROUNDED,
    FIELD_BOOL,
    FIELD_TEXT,
    FIELD_ABSENT
};

struct field {
    const char *name;
    enum field_kind kind;
    union {
        uint64_t number;
        int64_t integer;
        double real; /* as json_rounded */
        bool truth;
        const char *text; /* owned by the caller */
    };
};

#define FIELD(name, kind, member, value)                                                           \
    {                                                                                              \
        name, kind, .member = value                                                                \
    }
#define FIELD_IF(known, name, kind, member, value, none)                                           \
    FIELD(name, (known) ? kind : FIELD_NULL, member, (known) ? value : none)

#define NUMBER(name, value)  FIELD(name, FIELD_NUMBER, number, (uint64_t)(value))
#define SIGNED(name, value)  FIELD(name, FIELD_SIGNED, integer, value)
#define ROUNDED(name, value) FIELD(name, FIELD_ROUNDED, real, value)
#define FLAG(name, value)    FIELD(name, FIELD_BOOL, truth, value)
#define TEXT(name, value)    FIELD(name, FIELD_TEXT, text, value)
#define NOTHING(name)        FIELD(name, FIELD_NULL, text, NULL)
#define NUMBER_IF(known, name, value)                                                              \
    FIELD_IF(known, name, FIELD_NUMBER, number, (uint64_t)(value), 0)
#define ROUNDED_IF(known, name, value) FIELD_IF(known, name, FIELD_ROUNDED, real, (value), 0)
#define TEXT_IF(known, name, value)    FIELD_IF(known, name, FIELD_TEXT, text, (value), NULL)
/* The text, or null if it is NULL or empty. */
#define TEXT_OR_NULL(name, value) field_of_text(name, value)

/* The field of the arguments behind the condition; without it the field is left out. */
#define WHEN(condition, ...)                                                                       \
    ((condition) ? (struct field)__VA_ARGS__ : (struct field){.kind = FIELD_ABSENT})

static inline struct field field_of_text(const char *name, const char *text)
{
    const bool known = text && *text;

    return (struct field)TEXT_IF(known, name, text);
}

#define FIELDS(...)                                                                                \
    (const struct field[]){__VA_ARGS__},                                                           \
        sizeof((const struct field[]){__VA_ARGS__}) / sizeof(struct field)

/* Adds them as members; as a member that is an object of them; as an item that is one. */
#define JSON_MEMBERS(json, ...)      json_members(json, FIELDS(__VA_ARGS__))
#define JSON_OBJECT(json, name, ...) json_object(json, name, FIELDS(__VA_ARGS__))
/* Without the condition null, and the fields are not computed. */
#define JSON_OBJECT_IF(condition, json, name, ...)                                                 \
    ((condition) ? JSON_OBJECT(json, name, __VA_ARGS__) : json_null(json, name))
#define JSON_ITEM(json, ...) json_item(json, FIELDS(__VA_ARGS__))
void json_members(struct json *json, const struct field *fields, size_t count);
void json_object(struct json *json, const char *name, const struct field *fields, size_t count);
void json_item(struct json *json, const struct field *fields, size_t count);

/* Checks that a text from a target is valid JSON. */

enum { JSON_DEPTH_MAX = 64 };

/* True if it is one value of RFC 8259, with blanks around it, nested at most JSON_DEPTH_MAX deep.
 */
bool json_valid(const char *text, size_t len);
