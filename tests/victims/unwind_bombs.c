/*
 * A program that sleeps in a function with hostile call frame information.
 *
 *   unwind_bombs MODE [aside]
 *
 * MODE is the function in which the first thread sleeps:
 *
 *   skip      its CFA is an expression that jumps to its own start
 *   remember  it remembers its registers four million times
 *   chain     it is its own caller, again and again, each at a higher stack pointer
 *   register  its caller's rbx is in register 2^46
 *   column    its return address is in register 2^46
 *   divide    its CFA is the lowest number divided by -1
 *   deep      an ordinary function, below 9,000 calls
 *
 * That thread answers each byte of stdin with one of stdout. Its stack contains return
 * addresses of the allocator that are left over, which only call frame information can tell
 * from frames. aside: a second thread sleeps in an ordinary function.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { ROOM = 6000, LARGE = 200000, DEEP = 9000 };

typedef long reader(int fd, void *buf, size_t len);
reader read_skip, read_remember, read_chain, read_register, read_column, read_divide;

/* Each of them is read(2). DWARF 5, 6.4.2 and 2.5.1. */
__asm__(".text\n"
        "read_skip:\n"
        "    .cfi_startproc\n"
        "    .cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff\n" /* DW_CFA_def_cfa_expression: DW_OP_skip -3 */
        "    xor %eax, %eax\n"
        "    syscall\n"
        "    ret\n"
        "    .cfi_endproc\n"

        "read_chain:\n"
        "    .cfi_startproc\n"
        "    .cfi_escape 0x16, 16, 2, 0x80, 0\n" /* DW_CFA_val_expression: pc is DW_OP_breg16 + 0 */
        "    xor %eax, %eax\n"
        "    syscall\n"
        "    ret\n"
        "    .cfi_endproc\n"

        "read_register:\n"
        "    .cfi_startproc\n"
        "    .cfi_escape 9, 3, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10\n" /* DW_CFA_register */
        "    xor %eax, %eax\n"
        "    syscall\n"
        "    ret\n"
        "    .cfi_endproc\n"

        "read_divide:\n"
        "    .cfi_startproc\n"
        "    .cfi_escape 0x0f, 19\n"                             /* DW_CFA_def_cfa_expression */
        "    .cfi_escape 0x0e, 0, 0, 0, 0, 0, 0, 0, 0x80\n"      /* DW_OP_const8u */
        "    .cfi_escape 0x0f, -1, -1, -1, -1, -1, -1, -1, -1\n" /* DW_OP_const8s */
        "    .cfi_escape 0x1b\n"                                 /* DW_OP_div */
        "    xor %eax, %eax\n"
        "    syscall\n"
        "    ret\n"
        "    .cfi_endproc\n"

        "read_column:\n"
        "    xor %eax, %eax\n"
        "    syscall\n"
        "    ret\n"
        "read_column_end:\n"

        "read_remember:\n"
        "    xor %eax, %eax\n"
        "    syscall\n"
        "    ret\n"
        "read_remember_end:\n"

        ".section .eh_frame, \"a\", @progbits\n"
        "1:  .long 3f - 2f\n"
        "2:  .long 0\n" /* a CIE */
        "    .byte 1\n"
        "    .asciz \"zR\"\n"
        "    .uleb128 1\n"
        "    .sleb128 -8\n"
        "    .byte 16\n"
        "    .uleb128 1\n"
        "    .byte 0x1b\n"
        "    .byte 0x0c, 7, 8\n" /* DW_CFA_def_cfa rsp + 8 */
        "    .byte 0x80 + 16, 1\n"
        "    .balign 8\n"
        "3:  .long 5f - 4f\n"
        "4:  .long 4b - 1b\n" /* its FDE */
        "    .long read_remember - .\n"
        "    .long read_remember_end - read_remember\n"
        "    .uleb128 0\n"
        "    .fill 4000000, 1, 0x0a\n" /* DW_CFA_remember_state */
        "    .balign 8\n"
        "5:  .long 7f - 6f\n"
        "6:  .long 0\n"
        "    .byte 3\n" /* the version in which the column is a ULEB128 */
        "    .asciz \"zR\"\n"
        "    .uleb128 1\n"
        "    .sleb128 -8\n"
        "    .uleb128 1 << 46\n"
        "    .uleb128 1\n"
        "    .byte 0x1b\n"
        "    .byte 0x0c, 7, 8\n"
        "    .balign 8\n"
        "7:  .long 9f - 8f\n"
        "8:  .long 8b - 5b\n"
        "    .long read_column - .\n"
        "    .long read_column_end - read_column\n"
        "    .uleb128 0\n"
        "    .balign 8\n"
        "9:\n"
        ".text\n");

static long read_deep(int fd, void *buf, size_t len)
{
    return read(fd, buf, len);
}

static reader *const readers[] = {read_skip,   read_remember, read_chain, read_register,
                                  read_column, read_divide,   read_deep};
static const char *const modes[] = {"skip",   "remember", "chain", "register",
                                    "column", "divide",   "deep"};

/* Called through a pointer that the compiler cannot follow: nothing tells the caller its callee. */
static void (*volatile serve)(void *room, reader *sleep_in);

/* Leaves the return addresses of a call into the allocator where the caller puts its room next. */
static __attribute__((noinline)) void soil(void)
{
    char below[200];

    __asm__ volatile("" : : "r"(below) : "memory");
    for (size_t size = 16; size <= LARGE; size *= 3) {
        void *block = malloc(size);
        if (!block)
            abort();
        *(volatile char *)block = 1;
        free(block);
    }
}

static __attribute__((noinline)) void live_in_room(reader *sleep_in)
{
    char room[ROOM];

    __asm__ volatile("" : : "r"(room) : "memory");
    serve(room, sleep_in);
    __asm__ volatile("" : : "r"(room) : "memory");
}

static __attribute__((noinline)) void descend(int calls, reader *sleep_in)
{
    if (calls)
        descend(calls - 1, sleep_in);
    else
        live_in_room(sleep_in);
    __asm__ volatile("" : : : "memory"); /* not a tail call */
}

static void answer(void *room, reader *sleep_in)
{
    char byte;

    (void)room;
    while (sleep_in(STDIN_FILENO, &byte, 1) == 1)
        if (write(STDOUT_FILENO, &byte, 1) != 1)
            break;
}

static void *wait_aside(void *unused)
{
    free(malloc(LARGE));
    for (;;)
        pause();
    return unused;
}

int main(int argc, char **argv)
{
    reader *sleep_in = NULL;
    pthread_t thread;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i]) == 0)
            sleep_in = readers[i];
    if (!sleep_in)
        return 2;
    if (argc > 2 && pthread_create(&thread, NULL, wait_aside, NULL))
        return 1;
    usleep(50000);
    serve = answer;
    soil();
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    descend(sleep_in == read_deep ? DEEP : 0, sleep_in);
    return 0;
}
