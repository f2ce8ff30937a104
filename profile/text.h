/* Names on their way out: they come from a target and may hold anything. */
#pragma once

#include <stdio.h>

/* With '?' for what a terminal might act on, and for the characters of `also`. */
void text_write_clean(FILE *out, const char *text, const char *also);

/*
 * As a JSON string, quotes included: valid whatever the bytes are (RFC 8259),
 * and safe inside <script>, as '<', '>' and '&' are written as \u escapes.
 */
void text_write_json(FILE *out, const char *text);
