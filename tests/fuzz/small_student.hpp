#pragma once
#include "accrete/model/parameter.hpp"
#include "accrete/reference/backend.hpp"
#include "accrete/train/checkpoint_tensors.hpp"

namespace fuzz {

/// The weights of what could be a student: fused and single, matrix and gain, trained and frozen.
struct small_student {
  using backend = accrete::reference::backend<float>;
  using parameter = accrete::model::parameter<backend>;
  parameter qkv{accrete::model::parameter_role::matrix, accrete::model::named_rows({{"q", 2}, {"k", 1}}), 3};
  parameter gain{accrete::model::parameter_role::norm_gain, accrete::model::named_rows({{"norm", 1}}), 3};
  parameter head{accrete::model::parameter_role::head, accrete::model::named_rows({{"head", 2}}), 3};

  small_student() {
    qkv.set_trainable(true);
    gain.set_trainable(true);
  }
  [[nodiscard]] accrete::train::parameter_list<backend> parameters() { return {&qkv, &gain, &head}; }
};

}  // namespace fuzz
