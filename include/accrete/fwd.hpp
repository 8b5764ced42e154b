#pragma once
// Names and defaults on one page; no Eigen, nothing that is costly to read.
#include <concepts>
#include <cstddef>

#include "accrete/backend/types.hpp"
#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/types.hpp"
#include "accrete/core/view.hpp"

namespace accrete::inline v0 {

struct seed;
struct recipe;
class random_stream;

template <class T, int Rank, class Space>
class tensor;
template <class Space>
class arena;

namespace reference {
template <std::floating_point T>
struct backend;
}
namespace cpu {
struct eigen_gemm;
template <class Scalar, class Gemm>
class backend;
}  // namespace cpu

namespace wiring {
template <class Equation>
struct program;
}

namespace placement {
struct pre;
struct post;
struct peri;
struct peri_embedding;
struct olmo2;
struct deepnorm;
struct hybrid;
struct mix;
struct residual;
}  // namespace placement

namespace growth {
enum class data_order;
enum class trains;
template <std::size_t Phases>
struct plan;
template <int K, int L>
struct joint;
template <int K, int L, data_order Data>
struct curriculum;
template <int K, int L, trains What>
struct freeze;
}  // namespace growth

namespace layer {
struct like_teacher;
}

namespace data {
class tokenizer;
struct corpus;
struct ragged_batch;
}  // namespace data

template <class NormPlacement, class GrowthSchedule, class Backend, class Layer>
class student;

}  // namespace accrete::inline v0
