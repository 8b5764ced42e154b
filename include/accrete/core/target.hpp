#pragma once
#include <cstdint>

namespace accrete::inline v0 {

/// The target of a token after which nothing is known, the last of its document: it adds nothing to sums,
/// counts or gradients. Every other negative target is an error.
inline constexpr std::int32_t ignore_target = -1;

}  // namespace accrete::inline v0
