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

// Where a program links the compiled part, long functions that are no templates lie in it, and headers only declare
// them. Their bodies are in headers detail/*_body.hpp, which say ACCRETE_INLINE: read by the headers that declare
// them, or else by the compiled part alone.
#if defined(ACCRETE_COMPILED)
#define ACCRETE_INLINE
#else
#define ACCRETE_INLINE inline
#endif
