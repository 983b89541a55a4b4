#include <unistd.h>
#include "soft.h"
void zs_cm_accept(int fd, bool local, const struct zs_hello *hello) { (void)local; (void)hello; close(fd); }
