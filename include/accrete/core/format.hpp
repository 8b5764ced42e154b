#pragma once
// {fmt}, through one header, so that core/config.hpp has been read before it.
#include "accrete/core/config.hpp"
//
#include <fmt/format.h>
#include <fmt/ranges.h>
