// The CPU backend's operations, once for each format of numbers. What is declared and missing here the linker
// tells.
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/operations.hpp"

// T: the format that is stored; C: what it is computed in.
#define OPERATIONS(T, C)                                                                                       \
  template void upload(backend<T> const&, args::in1<T>, args::out1<T>);                                        \
  template void download(backend<T> const&, args::in1<T>, args::out1<T>);                                      \
  template void copy(backend<T> const&, args::in1<T>, args::out1<T>);                                          \
  template void copy(backend<T> const&, args::in2<T>, args::out2<T>);                                          \
  template void zero(backend<T> const&, args::out1<T>);                                                        \
  template void zero(backend<T> const&, args::out2<T>);                                                        \
  template void add(backend<T> const&, args::in2<C>, args::in2<C>, args::out2<C>);                             \
  template void scale(backend<T> const&, double, args::in2<C>, args::out2<C>);                                 \
  template void accumulate(backend<T> const&, double, args::in2<C>, args::out2<C>);                            \
  template void linear(backend<T> const&, args::in2<T>, args::in2<T>, args::out2<T>, store);                   \
  template void linear_backward_input(backend<T> const&, args::in2<T>, args::in2<T>, args::out2<T>, store);    \
  template void linear_backward_weight(backend<T> const&, args::in2<T>, args::in2<T>, args::out2<C>, store);   \
  template void add_bias(backend<T> const&, args::in1<C>, args::out2<T>);                                      \
  template void add_bias_backward(backend<T> const&, args::in2<T>, args::out1<C>);                             \
  template void rms_norm(backend<T> const&, args::in2<C>, args::in1<C>, double, args::out2<C>, args::out1<C>); \
  template void add_rms_norm(backend<T> const&, args::in2<C>, args::in2<C>, args::out2<C>, args::in1<C>,       \
                             double, args::out2<C>, args::out1<C>);                                            \
  template void rms_norm_backward(backend<T> const&, args::in2<C>, args::in1<C>, args::in1<C>, args::in2<C>,   \
                                  args::out2<C>, args::out1<C>, store);                                        \
  template void head_rms_norm(backend<T> const&, args::in2<T>, args::in1<C>, double, args::out2<T>,            \
                              args::out2<C>);                                                                  \
  template void head_rms_norm_backward(backend<T> const&, args::in2<T>, args::in1<C>, args::in2<C>,            \
                                       args::in2<T>, args::out2<T>, args::out1<C>, store);                     \
  template void embed(backend<T> const&, args::in2<T>, args::ids<>, args::out2<C>);                            \
  template void rotary_table(backend<T> const&, args::frequencies, args::out2<C>, args::out2<C>);              \
  template void rotary(backend<T> const&, args::out2<T>, args::ids<>, args::in2<C>, args::in2<C>, rotation);   \
  template void attention(backend<T> const&, args::in2<T>, args::in2<T>, args::in2<T>, args::offsets<>,        \
                          attention_shape, args::out2<T>, args::out2<C>);                                      \
  template void attention_backward(backend<T> const&, args::in2<T>, args::in2<T>, args::in2<T>,                \
                                   args::offsets<>, attention_shape, args::in2<T>, args::in2<C>, args::in2<T>, \
                                   args::out2<T>, args::out2<T>, args::out2<T>);                               \
  template void swiglu(backend<T> const&, args::in2<T>, args::out2<T>);                                        \
  template void swiglu_backward(backend<T> const&, args::in2<T>, args::in2<T>, args::out2<T>);                 \
  template void distillation_loss(backend<T> const&, args::in2<C>, args::out2<C>, args::out2<T>, args::ids<>,  \
                                  distillation_weights, args::sums<>);                                         \
  template void cross_entropy(backend<T> const&, args::in2<C>, args::ids<>, args::sums<>);                     \
  template double sum_of_squares(backend<T> const&, args::in1<C>);                                             \
  template void adamw(backend<T> const&, args::out1<C>, args::in1<C>, args::out1<C>, args::out1<C>,            \
                      adamw_step, args::out1<T>);

// The same into, out of and within the wider format, where there is one.
#define WIDER_OPERATIONS(T, C)                                                                                 \
  template void upload(backend<T> const&, args::in1<C>, args::out1<C>);                                        \
  template void download(backend<T> const&, args::in1<C>, args::out1<C>);                                      \
  template void copy(backend<T> const&, args::in1<C>, args::out1<C>);                                          \
  template void copy(backend<T> const&, args::in2<C>, args::out2<C>);                                          \
  template void copy(backend<T> const&, args::in2<C>, args::out2<T>);                                          \
  template void copy(backend<T> const&, args::in2<T>, args::out2<C>);                                          \
  template void zero(backend<T> const&, args::out1<C>);                                                        \
  template void zero(backend<T> const&, args::out2<C>);                                                        \
  template void linear(backend<T> const&, args::in2<T>, args::in2<T>, args::out2<C>, store);                   \
  template void linear_backward_input(backend<T> const&, args::in2<T>, args::in2<T>, args::out2<C>, store);    \
  template void add_bias(backend<T> const&, args::in1<C>, args::out2<C>);                                      \
  template void rms_norm(backend<T> const&, args::in2<C>, args::in1<C>, double, args::out2<T>, args::out1<C>); \
  template void add_rms_norm(backend<T> const&, args::in2<C>, args::in2<C>, args::out2<C>, args::in1<C>,       \
                             double, args::out2<T>, args::out1<C>);

namespace accrete::inline v0::cpu {

OPERATIONS(float, float)
OPERATIONS(bfloat16, float)
WIDER_OPERATIONS(bfloat16, float)

template char const* detail::name_of<default_gemm>();
template bool detail::multiplies_fast<float, default_gemm>();
template bool detail::multiplies_fast<bfloat16, default_gemm>();

}  // namespace accrete::inline v0::cpu
