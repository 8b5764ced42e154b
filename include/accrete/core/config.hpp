#pragma once
// The only header that looks at the compiler. Everything else is plain C++20.

#define ACCRETE_VERSION_MAJOR 0
#define ACCRETE_VERSION_MINOR 1
#define ACCRETE_VERSION_PATCH 0

#if defined(__CUDACC__)
#define ACCRETE_HOST_DEVICE __host__ __device__
// {fmt} up to 9 takes nvcc for a compiler without constexpr functions, and calls what it then leaves not
// constexpr in constant expressions all the same.
#ifndef FMT_USE_CONSTEXPR
#define FMT_USE_CONSTEXPR 1
#endif
#else
#define ACCRETE_HOST_DEVICE
#endif
