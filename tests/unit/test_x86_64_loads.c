/* Loads through variables, in x86-64 code as gcc and clang make it for the lines beside. */
#include "check.h"
#include "inject/refs.h"

#include <string.h>

enum { BASE = 0x401000, MARGIN = 8 };

static struct ref_load loads[32];
static size_t load_count;
static int64_t fields[32];
static size_t field_count;

static void take_load(void *ctx, const struct ref_load *load)
{
    (void)ctx;
    if (load_count < ARRAY_LEN(loads))
        loads[load_count++] = *load;
}

static void take_field(void *ctx, int64_t offset)
{
    (void)ctx;
    if (field_count < ARRAY_LEN(fields))
        fields[field_count++] = offset;
}

/* The code is between harmless bytes at BASE + MARGIN. */
static void look(const unsigned char *code, size_t len, int64_t link)
{
    unsigned char bytes[96];

    memset(bytes, 0x90, sizeof bytes);
    memcpy(bytes + MARGIN, code, len);
    load_count = field_count = 0;
    refs_visit_loads(bytes, sizeof bytes, BASE, take_load, NULL);
    refs_visit_fields(bytes, sizeof bytes, link, take_field, NULL);
}

/* mov x(%rip),%rdx at BASE + MARGIN, with a displacement of 0x1000. */
#define POINTER   0x48, 0x8b, 0x15, 0, 0x10, 0, 0
#define POINTER_R 0x4c, 0x8b, 0x25, 0, 0x10, 0, 0 /* the same to %r12 */
#define VARIABLE  (BASE + MARGIN + 7 + 0x1000)

struct through {
    unsigned char code[24];
    size_t len;
    int64_t offset;
};

static void test_through(void)
{
    static const struct through forms[] = {
        {{POINTER, 0x48, 0x8b, 0x02}, 10, 0},                         /* mov (%rdx),%rax */
        {{POINTER, 0x48, 0x8b, 0x42, 0x28}, 11, 40},                  /* mov 0x28(%rdx),%rax */
        {{POINTER, 0x48, 0x8b, 0x82, 0x78, 0x28}, 14, 0x2878},        /* mov 0x2878(%rdx),%rax */
        {{POINTER, 0x48, 0x8b, 0x42, 0xf8}, 11, -8},                  /* mov -8(%rdx),%rax */
        {{POINTER_R, 0x49, 0x8b, 0x44, 0x24, 0x30}, 12, 48},          /* mov 0x30(%r12),%rax */
        {{POINTER, 0x48, 0x83, 0xf8, 8, 0x48, 0x8b, 0x42, 8}, 15, 8}, /* after a cmp */
    };

    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        look(forms[i].code, forms[i].len, 0x50);
        CHECK(load_count == 2 && loads[0].variable == VARIABLE && !loads[0].through);
        CHECK(loads[1].variable == VARIABLE && loads[1].through);
        CHECK(loads[1].offset == forms[i].offset);
    }
}

static void test_not_through(void)
{
    static const struct through forms[] = {
        {{POINTER, 0x48, 0x8b, 0x43, 8}, 11, 0},            /* mov 8(%rbx),%rax */
        {{POINTER, 0x49, 0x8b, 0x42, 8}, 11, 0},            /* mov 8(%r10),%rax */
        {{POINTER, 0x8b, 0x42, 8}, 10, 0},                  /* mov 8(%rdx),%eax */
        {{POINTER, 0x48, 0x89, 0x42, 8}, 11, 0},            /* mov %rax,8(%rdx) */
        {{POINTER_R, 0x49, 0x8b, 0x44, 0xc4, 0x30}, 12, 0}, /* mov 0x30(%r12,%rax,8),%rax */
    };

    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        look(forms[i].code, forms[i].len, 0x50);
        CHECK(load_count == 1 && !loads[0].through);
    }
}

static void test_fields(void)
{
    /* mov 0x50(%rax),%rdi, then the address or the value at 0x2878 from there. */
    static const struct through forms[] = {
        {{0x48, 0x8b, 0x78, 0x50, 0x48, 0x81, 0xc7, 0x78, 0x28}, 11, 0}, /* add $0x2878,%rdi */
        {{0x48, 0x8b, 0x40, 0x50, 0x48, 0x05, 0x78, 0x28}, 10, 0},       /* %rax; add, %rax */
        {{0x48, 0x8b, 0x40, 0x50, 0x48, 0x8d, 0xb8, 0x78, 0x28}, 11, 0}, /* lea 0x2878(%rax) */
        {{0x48, 0x8b, 0x40, 0x50, 0x48, 0x8b, 0x80, 0x78, 0x28}, 11, 0}, /* mov 0x2878(%rax) */
        {{0x4c, 0x8b, 0x60, 0x50, 0x49, 0x8d, 0xbc, 0x24, 0x78, 0x28}, 12, 0}, /* %r12 */
        {{0xbf, 0x78, 0x28, 0, 0, 0x48, 0x03, 0x78, 0x50}, 9, 0}, /* mov $0x2878,%edi; add */
    };

    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        look(forms[i].code, forms[i].len, 0x50);
        CHECK(field_count == 1 && fields[0] == 0x2878);
        look(forms[i].code, forms[i].len, 0x48);
        CHECK(field_count == 0);
    }
}

/* Truncated instructions at the end are not read past. */
static void test_ends(void)
{
    static const unsigned char code[] = {POINTER, 0x48, 0x8b, 0x82, 0x78, 0x28, 0, 0};

    for (size_t len = 0; len <= sizeof code; len++) {
        unsigned char *copy = malloc(len ? len : 1);
        if (!CHECK(copy))
            return;
        memcpy(copy, code, len);
        load_count = field_count = 0;
        refs_visit_loads(copy, len, BASE, take_load, NULL);
        refs_visit_fields(copy, len, 0x50, take_field, NULL);
        CHECK(load_count == (len == sizeof code ? 2u : len >= 7 ? 1u : 0u));
        free(copy);
    }
}

int main(void)
{
    test_through();
    test_not_through();
    test_fields();
    test_ends();
    return check_result();
}
