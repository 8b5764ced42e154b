#pragma once
// Catch2, whichever of its two shapes is installed: version 3 comes in parts, version 2 (Debian 12) is one
// header.
#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>
// Version 3 moved Approx and the matchers; version 2 declares their names at these places.
using Catch::Approx;
namespace Catch {
using Matchers::ContainsSubstring;
using Matchers::EndsWith;
using Matchers::Equals;
using Matchers::Matches;
using Matchers::StartsWith;
}  // namespace Catch
#else
#include <catch2/catch.hpp>
namespace Catch::Matchers {
inline auto ContainsSubstring(std::string const& text) {
  return Catch::Matchers::Contains(text);
}
}  // namespace Catch::Matchers
namespace Catch {
using Matchers::ContainsSubstring;
}
#endif
