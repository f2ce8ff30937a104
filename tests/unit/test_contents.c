/*
 * What objects are: classes by forged type information, text behind the headers of strings,
 * words, entropy; and that nothing else is taken for a class or for text.
 */
#include "check.h"
#include "contents_rig.h"

static struct contents_rig rig;

static bool is_kind(struct content content, enum content_kind kind, const char *detail)
{
    bool good = content.kind == kind && (content.detail == NULL) == (detail == NULL) &&
                (!detail || strcmp(content.detail, detail) == 0);

    if (!good)
        fprintf(stderr, "is %s, %s\n", content_kind_name(content.kind),
                content.detail ? content.detail : "(none)");
    return good;
}

#define WORDS(...)                                                                                 \
    rig_judge(&rig, (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}))
#define BYTES(text) rig_judge(&rig, text, sizeof(text) - 1)

/* ---- classes ---- */

static void test_classes(void)
{
    struct content content;

    CHECK(contents_rig_begin(&rig, "7Session"));
    CHECK(is_kind(WORDS(RIG_MODULE + CLASS_VTABLE, 5, 6), CONTENT_CLASS, "Session"));
    CHECK(is_kind(WORDS(RIG_MODULE + BASE_VTABLE, 5, 6), CONTENT_CLASS, "Session"));
    content = WORDS(3, RIG_MODULE + CLASS_VTABLE, 6);
    CHECK(is_kind(content, CONTENT_CLASS, "Session") && content.at == 8);
    content = WORDS(3, 4, RIG_MODULE + CLASS_VTABLE, 6);
    CHECK(is_kind(content, CONTENT_CLASS, "Session") && content.at == 16);
    /* A list node with an object inside is not one. */
    CHECK(WORDS(RIG_HEAP + 64, RIG_MODULE + CLASS_VTABLE, 6).kind != CONTENT_CLASS);
    contents_rig_end(&rig);
}

static void test_names_of_classes(void)
{
    static const char *const names[][2] = {
        {"N4shop5OrderIlEE", "shop::Order<long>"},
        {"*N12_GLOBAL__N_16HiddenE", "(anonymous namespace)::Hidden"},
        {"St23_Sp_counted_ptr_inplaceI7SessionSaIvELN9__gnu_cxx12_Lock_policyE2EE", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CHECK(contents_rig_begin(&rig, names[i][0]));
        struct content content = WORDS(RIG_MODULE + CLASS_VTABLE, 1);
        CHECK(content.kind == CONTENT_CLASS);
        CHECK(names[i][1] ? is_kind(content, CONTENT_CLASS, names[i][1])
                          : strstr(content.detail, "_Sp_counted_ptr_inplace<Session") != NULL);
        contents_rig_end(&rig);
    }
}

/* Each of these breaks one link of the chain. */
static void test_what_is_no_class(void)
{
    static const struct {
        size_t at;
        uint64_t word;
    } breaks[] = {
        {CLASS_VTABLE - 16, 8},                      /* offset to top above 0 */
        {CLASS_VTABLE - 16, (uint64_t)-1 << 40},     /* or too far below */
        {CLASS_VTABLE - 8, 0},                       /* no type information: -fno-rtti */
        {CLASS_VTABLE - 8, RIG_HEAP},                /* it is not in a module */
        {CLASS_VTABLE - 8, RIG_MODULE + 0x2104},     /* or not aligned */
        {CLASS_TYPEINFO, RIG_MODULE + CLASS_VTABLE}, /* of another class: a vtable alone */
        {CLASS_TYPEINFO, 0},
        {CLASS_TYPEINFO + 8, RIG_HEAP},                 /* the name is not in a module */
        {CLASS_TYPEINFO + 8, RIG_MODULE + 0x7000},      /* is empty */
        {FAMILY_TYPEINFO + 8, RIG_MODULE + CLASS_NAME}, /* no class of type information */
        {CLASS_NAME, UINT64_C(0x4141414141414141)},     /* not mangled */
        {CLASS_NAME, UINT64_C(0x41ff41ff41ff41ff)},
    };

    for (size_t i = 0; i < ARRAY_LEN(breaks); i++) {
        CHECK(contents_rig_begin(&rig, "7Session"));
        rig_word(&rig, breaks[i].at, breaks[i].word);
        struct content content = WORDS(RIG_MODULE + CLASS_VTABLE, 1);
        if (!CHECK(is_kind(content, CONTENT_TYPE, "program+0x402010")))
            fprintf(stderr, "break %zu\n", i);
        contents_rig_end(&rig);
    }
    CHECK(contents_rig_begin(&rig, "7Session"));
    for (size_t at = CLASS_VTABLE - 16; at < CLASS_VTABLE + 32; at += 4)
        CHECK((WORDS(RIG_MODULE + at, 1).kind == CONTENT_CLASS) == (at == CLASS_VTABLE));
    contents_rig_end(&rig);
}

/* Each back reference doubles the text: 64 KiB for each of thousands of vtables is too much. */
static void test_name_that_grows(void)
{
    CHECK(contents_rig_begin(&rig, "1XI1YIS_S_E1YIS1_S1_E1YIS3_S3_E1YIS5_S5_E1YIS7_S7_E"
                                   "1YIS9_S9_E1YISB_SB_E1YISD_SD_E1YISF_SF_E1YISH_SH_EE"));
    struct content content = WORDS(RIG_MODULE + CLASS_VTABLE, 1);
    CHECK(content.kind == CONTENT_CLASS && strlen(content.detail) > 900 &&
          strlen(content.detail) <= 1000);
    contents_rig_end(&rig);
}

/* A name without an end, up to the last byte of the module. */
static void test_endless_name(void)
{
    CHECK(contents_rig_begin(&rig, "7Session"));
    memset(rig.module + CLASS_NAME + 0x200, 'a', RIG_MODULE_SIZE - CLASS_NAME - 0x200);
    rig_word(&rig, CLASS_TYPEINFO + 8, RIG_MODULE + CLASS_NAME + 0x200);
    CHECK(WORDS(RIG_MODULE + CLASS_VTABLE, 1).kind == CONTENT_TYPE);
    CHECK(rig.bytes < 64 << 10);
    size_t reads = rig.reads;
    for (int i = 0; i < 1000; i++)
        contents_judge(rig.contents,
                       &(struct content_bytes){
                           .addr = RIG_HEAP,
                           .size = 8,
                           .first = (const unsigned char *)&(uint64_t){RIG_MODULE + CLASS_VTABLE},
                           .first_len = 8});
    CHECK(rig.reads == reads); /* an address is looked at once */
    contents_rig_end(&rig);
}

/* ---- text ---- */

static void test_forms_of_text(void)
{
    static const char *const forms[][2] = {
        {"{\"id\":17,\"name\":\"x\"}", "JSON"},
        {"[{\"id\":17}]xxx", "JSON"},
        {"<?xml version=\"1.0\"?>", "XML or HTML"},
        {"https://example.org/", "URL"},
        {"/usr/lib/python3/site.py", "path"},
        {"12345678901234", "digits"},
        {"00c0ffee00c0ffee00c0ffee", "hex"},
        {"-----BEGIN PRIVATE KEY-----", "PEM"},
        {"TWFueSBoYW5kcyBtYWtlIGxpZ2h0IHdvcmsu", "base64"},
        {"session:00017", "name"},
        {"the quick brown fox", "words"},
        {"Gr\xc3\xbc\xc3\x9f aus K\xc3\xb6ln", "words"},
    };

    CHECK(contents_rig_begin(&rig, "7Session"));
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        unsigned char bytes[64] = {0};
        memcpy(bytes, forms[i][0], strlen(forms[i][0]));
        struct content content = rig_judge(&rig, bytes, sizeof bytes);
        CHECK(is_kind(content, CONTENT_TEXT, forms[i][1]));
        CHECK(content.at == 0 && content.text_len == strlen(forms[i][0]));
    }
    contents_rig_end(&rig);
}

static void test_headers_of_text(void)
{
    unsigned char own[64] = {0};
    const uint64_t string[2] = {RIG_HEAP + 16, 5}; /* libstdc++'s std::string of 5 bytes */

    CHECK(contents_rig_begin(&rig, "7Session"));
    CHECK(BYTES("\x0c\x0c\x01hello, world\0").at == 3);                /* sds, 8 bits */
    CHECK(BYTES("\x0c\0\x20\0\x02hello, world\0\0\0").at == 5);        /* sds, 16 bits */
    CHECK(BYTES("8session\0").at == 1 || BYTES("8session\0").at == 0); /* sds, 5 bits */
    CHECK(BYTES("8h:39474\0\0\0\0\0\0\0").at == 1);                    /* 7 << 3 is '8' */
    CHECK(BYTES("\x0c\0\0\0\0\0\0\0hello, world\0\0\0\0").at == 8);    /* 64 bits */
    CHECK(BYTES("\x0chello, world\0\0\0").at == 1);                    /* Pascal */
    memcpy(own, string, sizeof string);
    memcpy(own + 16, "hello", 5);
    struct content content = rig_judge(&rig, own, 32);
    CHECK(is_kind(content, CONTENT_TEXT, "name") && content.at == 16 && content.text_len == 5);
    contents_rig_end(&rig);
}

/* An xorshift generator: the same bytes in each run. */
static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void test_what_is_no_text(void)
{
    size_t texts = 0, random = 0;
    uint64_t words[32];

    CHECK(contents_rig_begin(&rig, "7Session"));
    for (size_t i = 0; i < 10000; i++) {
        for (size_t k = 0; k < ARRAY_LEN(words); k++)
            words[k] = next_random();
        struct content content = rig_judge(&rig, words, sizeof words);
        texts += content.kind == CONTENT_TEXT;
        random += content.kind == CONTENT_RANDOM;
    }
    CHECK(texts < 30 && random > 9900);
    CHECK(is_kind(WORDS(1700000000, 0), CONTENT_NUMBERS, NULL)); /* a time of 4 bytes */
    CHECK(is_kind(WORDS(0x41, 0x42, 0x43), CONTENT_NUMBERS, NULL));
    contents_rig_end(&rig);
}

/* ---- words ---- */

static void test_words(void)
{
    struct content content;

    CHECK(contents_rig_begin(&rig, "7Session"));
    CHECK(is_kind(WORDS(0, 0, 0), CONTENT_ZEROS, NULL));
    content = WORDS(RIG_HEAP + 16, RIG_HEAP + 4096, 3, 0, UINT64_C(0x8877665544332211));
    CHECK(is_kind(content, CONTENT_POINTERS, "heap") && strcmp(content.shape, "ppn0x") == 0);
    CHECK(is_kind(WORDS(0, RIG_MODULE + 8, RIG_MODULE + 16), CONTENT_POINTERS, "program"));
    CHECK(is_kind(WORDS(RIG_MODULE + 0x100, 1), CONTENT_TYPE, "program+0x400100"));
    /* Neither a guard page nor unmapped memory is a place to point to. */
    CHECK(WORDS(RIG_HEAP + RIG_HEAP_SIZE + 16, RIG_HEAP * 2).kind == CONTENT_OTHER);
    CHECK(is_kind(WORDS(1, 2, 3, (uint64_t)-5), CONTENT_NUMBERS, NULL));
    CHECK(is_kind(BYTES("\0\0\0\0"), CONTENT_ZEROS, NULL));
    CHECK(BYTES("").kind == CONTENT_ZEROS);
    contents_rig_end(&rig);
}

static void test_formats(void)
{
    CHECK(contents_rig_begin(&rig, "7Session"));
    CHECK(is_kind(BYTES("\x1f\x8b\x08\0\0\0\0\0\0\x03"), CONTENT_RANDOM, "gzip"));
    CHECK(is_kind(BYTES("\x28\xb5\x2f\xfd\x04\x58"), CONTENT_RANDOM, "zstd"));
    CHECK(is_kind(BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), CONTENT_RANDOM, "PNG"));
    contents_rig_end(&rig);
}

static void test_second_piece(void)
{
    unsigned char zeros[CONTENT_FIRST] = {0}, text[CONTENT_SECOND];
    uint64_t vtable[2] = {RIG_MODULE + CLASS_VTABLE, 0};

    memset(text, 'x', sizeof text);
    CHECK(contents_rig_begin(&rig, "7Session"));
    CHECK(
        is_kind(rig_judge_two(&rig, zeros, sizeof zeros, text, sizeof text), CONTENT_TEXT, "name"));
    CHECK(rig_judge_two(&rig, zeros, sizeof zeros, text, sizeof text).in_middle);
    CHECK(rig_judge_two(&rig, zeros, sizeof zeros, text, sizeof text).text_len == sizeof text);
    CHECK(!rig_judge_two(&rig, text, sizeof text, text, sizeof text).in_middle);
    CHECK(is_kind(rig_judge_two(&rig, zeros, sizeof zeros, zeros, sizeof zeros), CONTENT_ZEROS,
                  NULL));
    /* It does not begin with a class. */
    CHECK(is_kind(rig_judge_two(&rig, zeros, sizeof zeros, vtable, sizeof vtable), CONTENT_OTHER,
                  NULL));
    CHECK(is_kind(rig_judge_two(&rig, vtable, sizeof vtable, text, sizeof text), CONTENT_CLASS,
                  "Session"));
    contents_rig_end(&rig);
}

int main(void)
{
    test_classes();
    test_names_of_classes();
    test_what_is_no_class();
    test_name_that_grows();
    test_endless_name();
    test_forms_of_text();
    test_headers_of_text();
    test_what_is_no_text();
    test_words();
    test_formats();
    test_second_piece();
    return check_result();
}
