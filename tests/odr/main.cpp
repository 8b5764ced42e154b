// Every header, twice in one program: here after poisoned macros, in other.cpp without them and with assertions on.
// What is not inline the linker reports.
#include "poison.hpp"
//
#include "all_headers.inc"

int version_seen_elsewhere();

int main() { return version_seen_elsewhere() == ACCRETE_VERSION_MINOR ? 0 : 1; }
