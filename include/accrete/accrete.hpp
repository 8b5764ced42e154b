#pragma once
// Everything for the CPU, from the ground up: an ordered list of includes and nothing else. A program that needs
// only one room includes that room's headers; fwd.hpp has the names alone.

// core
#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"
