// Version 2 of Catch brings its main as source; version 3 as a library, and this file is then empty.
#if !__has_include(<catch2/catch_test_macros.hpp>)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
