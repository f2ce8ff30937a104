/* The parts of a demangled name: brackets, operators, and the blocks of Rust's impl. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A range of a name. */
struct name_part {
    const char *at, *end; /* at NULL: there is none */
};

/* "<Type as Trait>", "<Type>", "<impl Trait for Type>" or "<impl Type>". */
struct name_impl {
    struct name_part type, trait;
};

/* True if the part begins with the text. */
bool name_begins(struct name_part part, const char *text);
/*
 * Returns the position after the bracket that closes the one at part.at; NULL:
 * nothing closes it, or brackets are nested too deep. "->" and the brackets of
 * operators close nothing.
 */
const char *name_skip_bracket(struct name_part part);
/*
 * True if many brackets have no partner, or are those of operators: looking for each
 * partner would take a search through the whole name, and it is no name of a compiler.
 */
bool name_is_tangled(struct name_part part);
/*
 * Returns the position after an operator's name, if the part begins with it:
 * "operator<<", "operator()", "operator new[]". NULL: it does not, or the
 * operator is a conversion ("operator int").
 */
const char *name_skip_operator(struct name_part part);
/* Returns the first place of the text outside of brackets; NULL: it is not there. */
const char *name_search(struct name_part part, const char *text);
/* Splits the bracket that the part begins with; the bracket has an end. */
struct name_impl name_split_impl(struct name_part part);
/* True for a path into Rust's standard library. */
bool name_in_rust_library(struct name_part part);
/*
 * Returns the part of an impl that tells what it is about: the type ("&mut" and
 * the like left out), or the trait if the type has no path, or if only the type
 * is of the standard library.
 */
struct name_part name_of_impl(const struct name_impl *impl);
