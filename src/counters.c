/* The one instance of the object counters: see counters.h. */
#include "counters.h"

struct zc_counters zc_counters;
