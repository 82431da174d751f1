/* F-Stack's configuration file describes cards and memory, which are Ringway's service's: programs need nothing of it. ff_init reads the file that
 * --conf names. */
#ifndef FF_CONFIG_H
#define FF_CONFIG_H

#include <stdint.h>

#endif
