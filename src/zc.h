/* The public face of libzcrdma: everything a program needs to connect, to serve a region, to post and to poll. What measures
 * (measure.h) is for zcrdmad. */
#ifndef ZC_H
#define ZC_H

#include "auth.h"
#include "conn_param.h"
#include "connection.h"
#include "counters.h"
#include "device.h"
#include "memory.h"
#include "mr_cache.h"
#include "network.h"
#include "pattern.h"
#include "pipeline.h"
#include "poller.h"
#include "post.h"
#include "region.h"
#include "responder.h"

#endif
