#pragma once
#include <string>
#include <vector>

namespace accrete::inline v0::model {

/// Names of the norms at one end of a stack, below "model." and without ".weight": `name`, or numbered.
[[nodiscard]] inline std::vector<std::string> end_norm_names(std::string const& name, int count) {
  if (count == 1) return {name};
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back(name + "_" + std::to_string(i));
  return all;
}

}  // namespace accrete::inline v0::model
