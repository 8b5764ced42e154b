#pragma once
#include <concepts>
#include <cstddef>
#include <string>

#include "accrete/core/bfloat16.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/cpu/gemm_provider.hpp"
#include "accrete/cpu/parallel.hpp"
#include "accrete/backend/profile.hpp"
#include "accrete/cpu/staging.hpp"
#include "accrete/tensor/tensor.hpp"

namespace accrete::inline v0::cpu {

struct eigen_gemm;
struct onednn_gemm;
#if defined(ACCRETE_WITH_ONEDNN)
using default_gemm = onednn_gemm;
#else
using default_gemm = eigen_gemm;
#endif

template <class Scalar, class Gemm = default_gemm>
class backend;

namespace detail {

template <class Gemm>
char const* name_of() {
  static std::string const text = std::string("cpu, products by ") + Gemm::name();
  return text.c_str();
}

template <class T, class Gemm>
bool multiplies_fast() {
  return Gemm::template multiplies_fast<T>();
}

/// Whether the operations of a backend are in reach: all, or those of the compiled part.
template <class Backend>
#if defined(ACCRETE_COMPILED)
inline constexpr bool has_bodies =
    std::same_as<Backend, backend<float>> || std::same_as<Backend, backend<bfloat16>>;
#else
inline constexpr bool has_bodies = true;
#endif

}  // namespace detail

/// The CPU backend's context: how many threads work, and the scratch that operations need between their own
/// lines. Matrix products come from Gemm, everything else from Eigen arrays and loops that the compiler
/// vectorizes. With bfloat16, matrices and what meets them are stored in it, and everything else is float: sums,
/// residual streams, statistics, losses, gradients of weights, the optimizer's state. Results repeat bit by bit for the same number of threads. One object serves one calling thread
/// at a time.
template <class Scalar, class Gemm>
class backend {
  static_assert(std::same_as<Scalar, float> || std::same_as<Scalar, double> || std::same_as<Scalar, bfloat16>,
                "[accrete] cpu::backend: Scalar must be 'float', 'double' or 'bfloat16'");

 public:
  using scalar = Scalar;
  using real = computed_as<Scalar>;
  using space = mem::host;
  using gemm = Gemm;

  static char const* name() { return detail::name_of<Gemm>(); }
  /// Whether products of its matrices are no slower than those of float, on the processor it runs on.
  static bool multiplies_fast() { return detail::multiplies_fast<Scalar, Gemm>(); }

  /// Works with all threads that OpenMP offers.
  backend() : backend(detail::available_threads()) {}
  /// Works with `threads` threads; throws config_error unless at least 1.
  explicit backend(int threads) : threads_(threads) {
    static_assert(detail::has_bodies<backend>,
                  "[accrete] cpu::backend: the compiled part has the formats 'float' and 'bfloat16' with the default "
                  "Gemm. For others link accrete::accrete instead. See docs/compiling.md");
    if (threads < 1) {
      throw config_error("cpu::backend", std::to_string(threads) + " threads", "at least 1");
    }
  }
  /// A copy has the same number of threads and profile, and scratch of its own.
  backend(backend const& other) : threads_(other.threads_), profile_(other.profile_) {}
  backend(backend&&) noexcept = default;
  backend& operator=(backend other) noexcept {
    threads_ = other.threads_;
    profile_ = other.profile_;
    scratch_ = static_cast<tensor<std::byte, 1>&&>(other.scratch_);
    return *this;
  }
  ~backend() = default;

  [[nodiscard]] int threads() const { return threads_; }

  /// From now on operations of this context, and of its copies made later, are noted in `p`, which must outlive
  /// them; in none if it is null.
  void profile_into(profile* p) { profile_ = p; }
  /// Notes an operation until the result goes out of scope: floating-point operations, where they are what takes
  /// the time, and elements of `scalar` that are read and written.
  [[nodiscard]] timed_operation timed(char const* name, double elements, double operations = 0) const {
    return {profile_, name, operations, elements * double(sizeof(Scalar))};
  }
  [[nodiscard]] profile* profiled() const { return profile_; }

  /// Room for `count` elements of T, aligned to a cache line, with whatever was there before. It belongs to the
  /// operation that asked, until the next one asks; allocates only when no request was this large yet, and
  /// then twice as much: batches have about as many tokens and documents each, so that the first one's room
  /// does for all.
  template <class T>
  [[nodiscard]] T* scratch(index_t count) const {
    index_t const bytes = count * index_t(sizeof(T));
    if (bytes > scratch_.size()) scratch_ = tensor<std::byte, 1>({2 * bytes});
    return reinterpret_cast<T*>(scratch_.data());
  }

 private:
  int threads_;
  profile* profile_ = nullptr;
  mutable tensor<std::byte, 1> scratch_;
};

}  // namespace accrete::inline v0::cpu
