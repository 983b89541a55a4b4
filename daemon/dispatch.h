/* The registry of control methods, made from proto/methods.def: which handler, who may, which parameters. */
#ifndef ZC_DAEMON_DISPATCH_H
#define ZC_DAEMON_DISPATCH_H

#include "daemon.h"

/* For struct control_params: find the method, check access and parameter names, run the handler, answer. arg: struct daemon. */
void dispatch_call(void *arg, struct call *call);

#endif
