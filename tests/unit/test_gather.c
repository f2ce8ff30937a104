/* The gathering callback: its machine code runs here, as it does in the target. */
#include "check.h"
#include "inject/call.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 16, TEXTS_MAX = 4096 };

struct context {
    struct arch_gather head;
    char text[ROOM];
    char guard[8];
};

struct code {
    void (*gather)(struct context *, const char *);
    void (*flush)(struct context *);
};

static bool load(struct code *code)
{
    size_t len, gather, flush;
    const unsigned char *bytes = arch_trampoline(&len);
    unsigned char *at =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (!CHECK(at != MAP_FAILED && len <= SCRATCH_CODE) ||
        !CHECK(arch_gather_functions(&gather, &flush)) || !CHECK(gather < len && flush < len))
        return false;
    memcpy(at, bytes, len);
    if (!CHECK(mprotect(at, 4096, PROT_READ | PROT_EXEC) == 0))
        return false;
    void *functions[] = {at + gather, at + flush};
    memcpy(code, functions, sizeof functions);
    return true;
}

/* Writes the pieces and compares the output of a pipe with their sum. */
static void check_pieces(const struct code *code, const char *const *pieces, size_t count)
{
    struct context context = {.head = {.size = ROOM}, .guard = "guarded"};
    char wanted[TEXTS_MAX] = "", got[TEXTS_MAX];
    int ends[2];

    if (!CHECK(pipe(ends) == 0))
        return;
    context.head.fd = (uint64_t)ends[1];
    for (size_t i = 0; i < count; i++) {
        strcat(wanted, pieces[i]);
        code->gather(&context, pieces[i]);
        CHECK(context.head.used < ROOM || !*pieces[i]);
    }
    code->flush(&context);
    CHECK(context.head.used == 0);
    close(ends[1]);
    ssize_t n = read(ends[0], got, sizeof got - 1), more;
    while (n >= 0 && (more = read(ends[0], got + n, sizeof got - 1 - (size_t)n)) > 0)
        n += more;
    close(ends[0]);
    CHECK(n == (ssize_t)strlen(wanted) && memcmp(got, wanted, (size_t)n) == 0);
    CHECK(strcmp(context.guard, "guarded") == 0);
}

static void test_pieces(const struct code *code)
{
    static const char *const none[] = {""}, *const one[] = {"{\"jemalloc\":"};
    static const char *const exact[] = {"0123456789abcdef"}, *const twice[] = {"01234567",
                                                                               "89abcdef"};
    static const char *const over[] = {"0123456789abcdef!", "", "x"};
    static const char *const large[] = {
        "a text that is several times as large as what there is room for, in one piece, and then",
        "\n", "another", " that is too: 0123456789 0123456789 0123456789 0123456789"};

    check_pieces(code, none, ARRAY_LEN(none));
    check_pieces(code, one, ARRAY_LEN(one));
    check_pieces(code, exact, ARRAY_LEN(exact));
    check_pieces(code, twice, ARRAY_LEN(twice));
    check_pieces(code, over, ARRAY_LEN(over));
    check_pieces(code, large, ARRAY_LEN(large));
}

/* If the tool has died: the file descriptor does not exist, and the function continues. */
static void test_without_a_reader(const struct code *code)
{
    struct context context = {.head = {.size = ROOM, .fd = 0x3ffffffd}, .guard = "guarded"};

    for (int i = 0; i < 100; i++)
        code->gather(&context, "nobody listens to this");
    code->flush(&context);
    CHECK(context.head.used == 0 && context.head.size == ROOM);
    CHECK(strcmp(context.guard, "guarded") == 0);
}

static void test_claim(void)
{
    const struct gather gather = {.context = 0x7000};
    const uint64_t text = 0x7000 + sizeof(struct arch_gather);
    uint64_t args[6] = {0x3ffffffd, text, 100};
    uint64_t nr = 1; /* write(2) of x86-64 */

    CHECK(gather_is_write(&gather, nr, args));
    CHECK(!gather_is_write(&gather, nr + 1, args));
    args[0] = 2;
    CHECK(!gather_is_write(&gather, nr, args)); /* another machine's write */
    args[0] = 0x3ffffffd;
    args[1] = text + 1;
    CHECK(!gather_is_write(&gather, nr, args));
    args[1] = text;
    args[2] = UINT64_MAX;
    CHECK(!gather_is_write(&gather, nr, args));
}

int main(void)
{
    struct code code;

    if (load(&code)) {
        test_pieces(&code);
        test_without_a_reader(&code);
    }
    test_claim();
    return check_result();
}
