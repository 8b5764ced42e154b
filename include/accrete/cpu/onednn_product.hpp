#pragma once
#if defined(ACCRETE_WITH_ONEDNN)  // set by the build that links it; without, there is nothing here
#include <dnnl.h>

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"

/// oneDNN's handles in C++, and the code it writes for one product.
namespace accrete::inline v0::cpu {

namespace detail::onednn {

inline void check(dnnl_status_t status, char const* call) {
  if (status == dnnl_success) return;
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  throw numeric_error("onednn_gemm", std::string(call) + " refused with status " + std::to_string(int(status)),
                      "success", "report this with the processor's name, or build with ACCRETE_ONEDNN=OFF");
}

template <auto Destroy>
struct closer {
  template <class Handle>
  void operator()(Handle* h) const {
    Destroy(h);
  }
};
template <class Handle, auto Destroy>
using owned = std::unique_ptr<std::remove_pointer_t<Handle>, closer<Destroy>>;

inline dnnl_engine_t engine() {
  static owned<dnnl_engine_t, dnnl_engine_destroy> const made = [] {
    dnnl_engine_t e = nullptr;
    check(dnnl_engine_create(&e, dnnl_cpu, 0), "dnnl_engine_create");
    return owned<dnnl_engine_t, dnnl_engine_destroy>(e);
  }();
  return made.get();
}
inline dnnl_stream_t stream() {
  thread_local owned<dnnl_stream_t, dnnl_stream_destroy> const made = [] {
    dnnl_stream_t s = nullptr;
    check(dnnl_stream_create(&s, engine(), dnnl_stream_default_flags), "dnnl_stream_create");
    return owned<dnnl_stream_t, dnnl_stream_destroy>(s);
  }();
  return made.get();
}

// Version 3 has other names for the three calls below, and handles where version 2 has structs.
#if DNNL_VERSION_MAJOR >= 3
using description = owned<dnnl_memory_desc_t, dnnl_memory_desc_destroy>;
inline dnnl_memory_desc_t handle_of(description const& d) {
  return d.get();
}
inline dnnl_status_t describe(description& d, dnnl_dims_t const dims, dnnl_data_type_t type,
                              dnnl_dims_t const strides) {
  dnnl_memory_desc_t made = nullptr;
  auto const status = dnnl_memory_desc_create_with_strides(&made, 2, dims, type, strides);
  d.reset(made);
  return status;
}
inline dnnl_status_t append_sum(dnnl_post_ops_t operations) {
  return dnnl_post_ops_append_sum(operations, 1.0F, 0, dnnl_data_type_undef);
}
inline dnnl_status_t describe_product(dnnl_primitive_desc_t& made, description const& a, description const& b,
                                      description const& c, dnnl_primitive_attr_t attributes) {
  return dnnl_matmul_primitive_desc_create(&made, engine(), a.get(), b.get(), nullptr, c.get(), attributes);
}
#else
using description = dnnl_memory_desc_t;
inline dnnl_memory_desc_t const* handle_of(description const& d) {
  return &d;
}
inline dnnl_status_t describe(description& d, dnnl_dims_t const dims, dnnl_data_type_t type,
                              dnnl_dims_t const strides) {
  return dnnl_memory_desc_init_by_strides(&d, 2, dims, type, strides);
}
inline dnnl_status_t append_sum(dnnl_post_ops_t operations) {
  return dnnl_post_ops_append_sum(operations, 1.0F);
}
inline dnnl_status_t describe_product(dnnl_primitive_desc_t& made, description const& a, description const& b,
                                      description const& c, dnnl_primitive_attr_t attributes) {
  dnnl_matmul_desc_t wanted;
  auto const status = dnnl_matmul_desc_init(&wanted, &a, &b, nullptr, &c);
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(&made, &wanted, attributes, engine(), nullptr);
}
#endif

/// Everything a product's code depends on. Distances between rows are part of it.
struct product {
  index_t m, n, k, row_of_a, row_of_b, row_of_c;
  bool transposed_a, transposed_b, wide_result, adds;
  int threads;
  friend bool operator==(product const&, product const&) = default;
};
struct product_hash {
  std::size_t operator()(product const& p) const {
    std::size_t h = 0;
    for (index_t const part : {p.m, p.n, p.k, p.row_of_a, p.row_of_b, p.row_of_c,
                               index_t(p.transposed_a) * 8 + index_t(p.transposed_b) * 4 +
                                   index_t(p.wide_result) * 2 + index_t(p.adds) + 16 * index_t(p.threads)})
      h = (h ^ std::size_t(part)) * 0x9E37'79B9'7F4A'7C15U;
    return h ^ (h >> 29);
  }
};

/// The code that oneDNN wrote for one product, with operands of bfloat16, and handles for its three matrices.
class compiled_product {
 public:
  /// Empty where this processor has no such code.
  explicit compiled_product(product const& p) {
    auto const described = [](index_t rows, index_t columns, index_t row, bool transposed, bool wide) {
      dnnl_dims_t const dims{rows, columns};
      dnnl_dims_t const strides{transposed ? 1 : row, transposed ? row : 1};
      description d{};
      check(describe(d, dims, wide ? dnnl_f32 : dnnl_bf16, strides), "dnnl_memory_desc");
      return d;
    };
    auto const a = described(p.m, p.k, p.row_of_a, p.transposed_a, false);
    auto const b = described(p.k, p.n, p.row_of_b, p.transposed_b, false);
    auto const c = described(p.m, p.n, p.row_of_c, false, p.wide_result);
    dnnl_primitive_attr_t raw_attributes = nullptr;
    check(dnnl_primitive_attr_create(&raw_attributes), "dnnl_primitive_attr_create");
    owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> const attributes(raw_attributes);
    if (p.adds) {
      dnnl_post_ops_t raw_operations = nullptr;
      check(dnnl_post_ops_create(&raw_operations), "dnnl_post_ops_create");
      owned<dnnl_post_ops_t, dnnl_post_ops_destroy> const operations(raw_operations);
      check(append_sum(operations.get()), "dnnl_post_ops_append_sum");
      check(dnnl_primitive_attr_set_post_ops(attributes.get(), operations.get()),
            "dnnl_primitive_attr_set_post_ops");
    }
    dnnl_primitive_desc_t raw_description = nullptr;
    auto const status = describe_product(raw_description, a, b, c, attributes.get());
    if (status == dnnl_unimplemented) return;
    check(status, "dnnl_matmul");
    owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy> const described_product(raw_description);
    dnnl_primitive_t made = nullptr;
    check(dnnl_primitive_create(&made, described_product.get()), "dnnl_primitive_create");
    primitive_.reset(made);
    for (std::size_t i = 0; i < 3; ++i) {
      dnnl_memory_t memory = nullptr;
      check(dnnl_memory_create(&memory, std::array{handle_of(a), handle_of(b), handle_of(c)}[i], engine(),
                               DNNL_MEMORY_NONE),
            "dnnl_memory_create");
      memory_[i].reset(memory);
    }
  }
  [[nodiscard]] bool exists() const { return primitive_ != nullptr; }

  void run(void const* a, void const* b, void* c) const {
    std::array<void*, 3> const data{const_cast<void*>(a), const_cast<void*>(b), c};  // a and b are only read
    for (std::size_t i = 0; i < 3; ++i)
      check(dnnl_memory_set_data_handle(memory_[i].get(), data[i]), "dnnl_memory_set_data_handle");
    std::array<dnnl_exec_arg_t, 3> const arguments{{{DNNL_ARG_SRC, memory_[0].get()},
                                                    {DNNL_ARG_WEIGHTS, memory_[1].get()},
                                                    {DNNL_ARG_DST, memory_[2].get()}}};
    check(dnnl_primitive_execute(primitive_.get(), stream(), 3, arguments.data()), "dnnl_primitive_execute");
    check(dnnl_stream_wait(stream()), "dnnl_stream_wait");
  }

 private:
  owned<dnnl_primitive_t, dnnl_primitive_destroy> primitive_;
  std::array<owned<dnnl_memory_t, dnnl_memory_destroy>, 3> memory_;
};

/// The calling thread's code for a product, written where it has none yet.
inline compiled_product const& code_for(product const& p) {
  constexpr std::size_t most = 4096;  // a few kilobytes each; batches of ragged documents bring new ones
  thread_local std::unordered_map<product, compiled_product, product_hash> known;
  if (auto const found = known.find(p); found != known.end()) return found->second;
  if (known.size() >= most) known.clear();
  return known.try_emplace(p, p).first->second;
}

}  // namespace detail::onednn

}  // namespace accrete::inline v0::cpu
#endif
