#pragma once
#if defined(ACCRETE_COMPILED)  // set by the build that links the compiled part; without, there is nothing here
#include "accrete/backend/arguments.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/core/bfloat16.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/staging.hpp"

/// The operations of the CPU backend by their first lines alone, without Eigen: what a program reads that links
/// the compiled part, which holds them for the formats below. What each does is said in operations.hpp's
/// headers; a program reads either those or this.
namespace accrete::inline v0::cpu {

// Moving, filling and whole-tensor arithmetic.
template <class T, class Gemm>
void upload(backend<T, Gemm> const& ctx, args::in1<T> in, args::out1<T> out);
template <class T, class Gemm>
void download(backend<T, Gemm> const& ctx, args::in1<T> in, args::out1<T> out);
template <class T, class Gemm>
void copy(backend<T, Gemm> const& ctx, args::in1<T> in, args::out1<T> out);
template <class T, class Gemm>
void copy(backend<T, Gemm> const& ctx, args::in2<T> in, args::out2<T> out);
template <class T, class Gemm>
void zero(backend<T, Gemm> const& ctx, args::out1<T> out);
template <class T, class Gemm>
void zero(backend<T, Gemm> const& ctx, args::out2<T> out);
template <class T, class Gemm>
requires stored_narrow<T>
void upload(backend<T, Gemm> const& ctx, args::in1<computed_as<T>> in, args::out1<computed_as<T>> out);
template <class T, class Gemm>
requires stored_narrow<T>
void download(backend<T, Gemm> const& ctx, args::in1<computed_as<T>> in, args::out1<computed_as<T>> out);
template <class T, class Gemm>
requires stored_narrow<T>
void copy(backend<T, Gemm> const& ctx, args::in1<computed_as<T>> in, args::out1<computed_as<T>> out);
template <class T, class Gemm>
requires stored_narrow<T>
void copy(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> in, args::out2<computed_as<T>> out);
template <class T, class Gemm>
requires stored_narrow<T>
void copy(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> in, args::out2<T> out);
template <class T, class Gemm>
requires stored_narrow<T>
void copy(backend<T, Gemm> const& ctx, args::in2<T> in, args::out2<computed_as<T>> out);
template <class T, class Gemm>
requires stored_narrow<T>
void zero(backend<T, Gemm> const& ctx, args::out1<computed_as<T>> out);
template <class T, class Gemm>
requires stored_narrow<T>
void zero(backend<T, Gemm> const& ctx, args::out2<computed_as<T>> out);
template <class T, class Gemm>
void add(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> a, args::in2<computed_as<T>> b,
         args::out2<computed_as<T>> out);
template <class T, class Gemm>
void scale(backend<T, Gemm> const& ctx, double c, args::in2<computed_as<T>> a, args::out2<computed_as<T>> out);
template <class T, class Gemm>
void accumulate(backend<T, Gemm> const& ctx, double c, args::in2<computed_as<T>> a,
                args::out2<computed_as<T>> out);

// Products, and a bias beside them.
template <class T, class Gemm>
void linear(backend<T, Gemm> const& ctx, args::in2<T> x, args::in2<T> w, args::out2<T> y, store how);
template <class T, class Gemm>
requires stored_narrow<T>
void linear(backend<T, Gemm> const& ctx, args::in2<T> x, args::in2<T> w, args::out2<computed_as<T>> y,
            store how);
template <class T, class Gemm>
void linear_backward_input(backend<T, Gemm> const& ctx, args::in2<T> dy, args::in2<T> w, args::out2<T> dx,
                           store how);
template <class T, class Gemm>
requires stored_narrow<T>
void linear_backward_input(backend<T, Gemm> const& ctx, args::in2<T> dy, args::in2<T> w,
                           args::out2<computed_as<T>> dx, store how);
template <class T, class Gemm>
void linear_backward_weight(backend<T, Gemm> const& ctx, args::in2<T> dy, args::in2<T> x,
                            args::out2<computed_as<T>> dw, store how);
template <class T, class Gemm, class C = computed_as<T>>
void add_bias(backend<T, Gemm> const& ctx, args::in1<C> bias, args::out2<T> y);
template <class T, class Gemm, class C = computed_as<T>>
requires stored_narrow<T>
void add_bias(backend<T, Gemm> const& ctx, args::in1<C> bias, args::out2<C> y);
template <class T, class Gemm>
void add_bias_backward(backend<T, Gemm> const& ctx, args::in2<T> dy, args::out1<computed_as<T>> dbias);

// Norms.
template <class T, class Gemm>
void rms_norm(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> x, args::in1<computed_as<T>> gain,
              double eps, args::out2<computed_as<T>> y, args::out1<computed_as<T>> rstd);
template <class T, class Gemm>
requires stored_narrow<T>
void rms_norm(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> x, args::in1<computed_as<T>> gain,
              double eps, args::out2<T> y, args::out1<computed_as<T>> rstd);
template <class T, class Gemm>
void add_rms_norm(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> a, args::in2<computed_as<T>> b,
                  args::out2<computed_as<T>> sum, args::in1<computed_as<T>> gain, double eps,
                  args::out2<computed_as<T>> y, args::out1<computed_as<T>> rstd);
template <class T, class Gemm>
requires stored_narrow<T>
void add_rms_norm(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> a, args::in2<computed_as<T>> b,
                  args::out2<computed_as<T>> sum, args::in1<computed_as<T>> gain, double eps, args::out2<T> y,
                  args::out1<computed_as<T>> rstd);
template <class T, class Gemm, class C = computed_as<T>>
void rms_norm_backward(backend<T, Gemm> const& ctx, args::in2<C> x, args::in1<C> gain, args::in1<C> rstd,
                       args::in2<C> dy, args::out2<C> dx, args::out1<C> dgain, store how);
template <class T, class Gemm, class C = computed_as<T>>
void head_rms_norm(backend<T, Gemm> const& ctx, args::in2<T> x, args::in1<C> gain, double eps, args::out2<T> y,
                   args::out2<C> rstd);
template <class T, class Gemm, class C = computed_as<T>>
void head_rms_norm_backward(backend<T, Gemm> const& ctx, args::in2<T> x, args::in1<C> gain, args::in2<C> rstd,
                            args::in2<T> dy, args::out2<T> dx, args::out1<C> dgain, store how);

// Embedding and rotation.
template <class T, class Gemm>
void embed(backend<T, Gemm> const& ctx, args::in2<T> table, args::ids<> ids, args::out2<computed_as<T>> out);
template <class T, class Gemm>
void rotary_table(backend<T, Gemm> const& ctx, args::frequencies frequencies,
                  args::out2<computed_as<T>> cosines, args::out2<computed_as<T>> sines);
template <class T, class Gemm>
void rotary(backend<T, Gemm> const& ctx, args::out2<T> x, args::ids<> positions,
            args::in2<computed_as<T>> cosines, args::in2<computed_as<T>> sines, rotation way);

// Attention.
template <class T, class Gemm, class C = computed_as<T>>
void attention(backend<T, Gemm> const& ctx, args::in2<T> q, args::in2<T> k, args::in2<T> v,
               args::offsets<> documents, attention_shape shape, args::out2<T> out, args::out2<C> log_sum_exp);
template <class T, class Gemm, class C = computed_as<T>>
void attention_backward(backend<T, Gemm> const& ctx, args::in2<T> q, args::in2<T> k, args::in2<T> v,
                        args::offsets<> documents, attention_shape shape, args::in2<T> out,
                        args::in2<C> log_sum_exp, args::in2<T> dout, args::out2<T> dq, args::out2<T> dk,
                        args::out2<T> dv);

// The gated MLP.
template <class T, class Gemm>
void swiglu(backend<T, Gemm> const& ctx, args::in2<T> gate_up, args::out2<T> out);
template <class T, class Gemm>
void swiglu_backward(backend<T, Gemm> const& ctx, args::in2<T> gate_up, args::in2<T> dout,
                     args::out2<T> dgate_up);

// Losses.
template <class T, class Gemm, class C = computed_as<T>>
void distillation_loss(backend<T, Gemm> const& ctx, args::in2<C> teacher, args::out2<C> student,
                       args::out2<T> gradient, args::ids<> targets, distillation_weights weights,
                       args::sums<> sums);
template <class T, class Gemm, class C = computed_as<T>>
void cross_entropy(backend<T, Gemm> const& ctx, args::in2<C> logits, args::ids<> targets, args::sums<> sums);

// The optimizer.
template <class T, class Gemm>
double sum_of_squares(backend<T, Gemm> const& ctx, args::in1<computed_as<T>> in);
template <class T, class Gemm>
void adamw(backend<T, Gemm> const& ctx, args::out1<computed_as<T>> parameter,
           args::in1<computed_as<T>> gradient, args::out1<computed_as<T>> first,
           args::out1<computed_as<T>> second, adamw_step step, args::out1<T> stored = {});

extern template char const* detail::name_of<default_gemm>();
extern template bool detail::multiplies_fast<float, default_gemm>();
extern template bool detail::multiplies_fast<bfloat16, default_gemm>();

}  // namespace accrete::inline v0::cpu
#endif
