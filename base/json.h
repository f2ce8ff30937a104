/* One JSON object on a stream, written member by member. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    bool any;
};

void json_begin(struct json *json, FILE *out);
/* A member whose value the caller writes. */
void json_name(struct json *json, const char *name);
/* Text comes from the target: bytes that are no UTF-8 become U+FFFD. */
void json_text(struct json *json, const char *name, const char *text);
void json_number(struct json *json, const char *name, uint64_t value);
void json_bool(struct json *json, const char *name, bool value);
/* The text, or null if it is NULL or empty. */
void json_text_or_null(struct json *json, const char *name, const char *text);
void json_null(struct json *json, const char *name);
void json_signed(struct json *json, const char *name, int64_t value);
/* The nearest whole number; beyond all that there are, the outermost one. */
void json_rounded(struct json *json, const char *name, double value);
/* A member that is an object: what is written until json_close is in it. */
void json_open(struct json *json, const char *name);
void json_close(struct json *json);
void json_end(struct json *json);
/* The same without a newline: for objects within a line. */
void json_object_end(struct json *json);

/* A member that is a list of texts: json_string adds one, json_list_end ends the list. */
void json_strings_begin(struct json *json, const char *name);
void json_string(struct json *json, const char *text);

/*
 * A member that is a list of objects: json_list_item begins each, json_end
 * ends it, json_list_end ends the list.
 */
void json_list_begin(struct json *json, const char *name);
void json_list_item(struct json *list, struct json *item);
void json_list_end(struct json *json);
