/* The processors, as programs for mTCP ask for them. */
#ifndef CPU_H
#define CPU_H

#ifdef __cplusplus
extern "C" {
#endif

int GetNumCPUs(void);           /* those that are online */
int whichCoreID(int thread_no); /* the processor of the program's thread_no-th thread */

#ifdef __cplusplus
}
#endif
#endif
