// Everything the library stands on, then macros with names that system headers are known to define (windows.h,
// complex.h, curses.h). The library's headers come after it and must not use these names bare: (std::min)(a, b) is
// safe, std::min(a, b) is not.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <bits/stdc++.h>

#include <Eigen/Dense>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <omp.h>
#include <utf8proc.h>
#include <zlib.h>
#include <zstd.h>
#if __has_include(<xtensor/containers/xadapt.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/io/xnpy.hpp>
#elif __has_include(<xtensor/xadapt.hpp>)
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xnpy.hpp>
#endif

#define min(a, b) poisoned
#define max(a, b) poisoned
#define small poisoned
#define near poisoned
#define far poisoned
#define interface poisoned
#define IN poisoned
#define OUT poisoned
#define ERROR poisoned
