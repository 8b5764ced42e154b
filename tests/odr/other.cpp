#include "all_headers.inc"

int version_seen_elsewhere();
int version_seen_elsewhere() { return ACCRETE_VERSION_MINOR; }
