/*
 * Of which class the objects are that have become more, by what objects of their size begin with:
 * only what a vtable or a type of Python proves (contents/contents.h).
 */
#pragma once

#include "run/grow/grow_pages.h"
#include "run/leak/looks.h"

enum {
    GROWN_CLASSES = 3,      /* of as many sizes, those that have grown most */
    GROWN_CLASS_NAME = 512, /* bytes; a longer name is cut */
};

struct grown_class {
    uint64_t size; /* of an object, bytes; 0: none */
    char name[GROWN_CLASS_NAME];
};

/*
 * Reads a sample of the objects of the sizes that have grown most between the looks. A class is
 * named if nine of ten of those in pages that were not there at the first look are of it, and these
 * are three quarters of the growth; or if so few objects of that size are of another one that they
 * cannot be the growth. pages: may have seen nothing. Between attachment_renew and attachment_rest.
 */
void grown_classes_find(struct grown_class found[GROWN_CLASSES], const struct looks *looks,
                        const struct grow_pages *pages, struct attachment *attachment);
