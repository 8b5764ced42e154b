// Every header, twice in one program: here after poisoned macros, in other.cpp before them and with NDEBUG turned
// round. What is not inline, or differs, the linker reports.
#include "poison.hpp"
//
#include "all_headers.inc"

int version_seen_elsewhere();

int main() { return version_seen_elsewhere() == ACCRETE_VERSION_MINOR ? 0 : 1; }
