/* The public face of libzcrdma: everything a program needs to measure, to serve a region, or to post. */
#ifndef ZC_H
#define ZC_H

#include "auth.h"
#include "connection.h"
#include "counters.h"
#include "device.h"
#include "measure.h"
#include "memory.h"
#include "network.h"
#include "pattern.h"
#include "poller.h"
#include "post.h"
#include "region.h"
#include "responder.h"

#endif
