/* The queue to which a card that mTCP has set up would send a flow: all values in network byte order. Without meaning for where
 * Ringway's workers receive it. */
#ifndef RSS_H
#define RSS_H

#include <netinet/in.h>

#ifdef __cplusplus
extern "C" {
#endif

int GetRSSCPUCore(in_addr_t sip, in_addr_t dip, in_port_t sp, in_port_t dp, int num_queues, uint8_t endian_check);

#ifdef __cplusplus
}
#endif
#endif
