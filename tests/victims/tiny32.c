/* A 32-bit process that needs no 32-bit library: it sleeps. */
#define NR_PAUSE 29

void _start(void);

void _start(void)
{
    for (;;) {
        int result;

        __asm__ volatile("int $0x80" : "=a"(result) : "a"(NR_PAUSE) : "memory");
    }
}
