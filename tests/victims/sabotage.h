/*
 * Damage of the kinds that a wrong return from an interruption does, so that the tests can show
 * that the victim's self-check notices each of them.
 */
#ifndef VICTIM_SABOTAGE_H
#define VICTIM_SABOTAGE_H

#include <stdbool.h>

/* Arranges for the damage `what`, once, a moment from now. False when the name is not known, */
/* or when this CPU has no such register (*missing is set then). */
bool sabotage_install(const char *what, bool *missing);
/* Starts its timer; not before the victim has taken its baseline. */
void sabotage_start(void);
/* Suspends the damage: the registers that a probe leaves are not checked. */
void sabotage_put_off(bool off);
/* True until the damage is done. */
bool sabotage_waits(void);
/* An area above the stack of the probes, for the damage that writes there. */
void sabotage_set_canary(volatile unsigned char *canary);
void sabotages_print(void);

#endif
