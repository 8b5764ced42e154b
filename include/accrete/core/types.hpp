#pragma once

namespace accrete::inline v0 {

/// A list of types: `types<placement::pre, placement::post>`.
template <class... T>
struct types {};

}  // namespace accrete::inline v0
