/* What F-Stack's programs with micro threads include. */
#ifndef FF_MT_INCL_H
#define FF_MT_INCL_H

#include "mt_api.h"

using namespace std;
using namespace NS_MICRO_THREAD;

#endif
