#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrete/distill/vocabulary_head.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/model/student.hpp"
#include "support/gradient.hpp"
#include "support/tiny_model.hpp"

/// A distillation step by hand, without a trainer: what tests of the model compare, split and differentiate.
namespace test {

/// Two layers at once; four where the placement needs them to show both of its equations.
template <class P>
using joint_for = std::conditional_t<std::is_same_v<P, accrete::placement::mix>, accrete::growth::joint<2, 2>,
                                     accrete::growth::joint<2, 1>>;

struct named_numbers {
  std::string name;
  std::vector<double> numbers;
};
using snapshot = std::vector<named_numbers>;

template <class T>
named_numbers named(std::string name, accrete::view<T, 2> v) {
  named_numbers n{std::move(name), {}};
  for (accrete::index_t i = 0; i < v.rows(); ++i)
    for (accrete::index_t j = 0; j < v.columns(); ++j) n.numbers.push_back(double(v(i, j)));
  return n;
}
/// All weights of a student or stack, q, k, v, gate and up apart.
template <class Model>
snapshot values_of(Model& m) {
  snapshot all;
  m.parameters([&](auto& p) {
    for (auto const& part : p.parts)
      all.push_back(named(part.name, p.value.view().slice(part.first, part.rows)));
  });
  return all;
}
/// The gradients of what trains.
template <class Model>
snapshot gradients_of(Model& m) {
  snapshot all;
  m.parameters([&](auto& p) {
    if (!p.trainable()) return;
    for (auto const& part : p.parts)
      all.push_back(named(part.name, p.gradient.view().slice(part.first, part.rows)));
  });
  return all;
}

inline double norm_of(std::vector<double> const& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return std::sqrt(sum);
}
/// ||a - c b|| / ||c b|| of the worst group; infinite where names or sizes differ or a number is not one.
inline double worst_difference(snapshot const& a, snapshot const& b, double c = 1.0) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || a[i].numbers.size() != b[i].numbers.size())
      return std::numeric_limits<double>::infinity();
    auto off = b[i].numbers;
    for (std::size_t k = 0; k < off.size(); ++k) off[k] = a[i].numbers[k] - c * off[k];
    double const size = std::abs(c) * norm_of(b[i].numbers);
    double const ratio = norm_of(off) == 0 ? 0.0 : norm_of(off) / size;
    worst = ratio <= worst ? worst : (ratio > worst ? ratio : std::numeric_limits<double>::infinity());
  }
  return worst;
}
inline bool same_bits(std::vector<double> const& a, std::vector<double> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}
inline bool same_bits(snapshot const& a, snapshot const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].name != b[i].name || !same_bits(a[i].numbers, b[i].numbers)) return false;
  return true;
}
inline double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

/// Fresh layers hardly do anything: weights of this size give every parameter a gradient worth comparing.
template <class Model>
void enlarge_weights(Model& m, accrete::seed s = {3}) {
  m.parameters([&](auto& p) {
    if (p.role == accrete::model::parameter_role::head) return;
    bool const gain = p.role == accrete::model::parameter_role::norm_gain;
    accrete::random_stream const stream(s, p.name());
    auto const flat = p.value.view().flat();
    using scalar = typename decltype(flat)::value_type;
    for (accrete::index_t i = 0; i < flat.size(); ++i)
      flat(i) = static_cast<scalar>((gain ? 1.0 : 0.0) + 0.4 * stream.normal(std::uint64_t(i)));
    p.refresh(m.context());
  });
}
template <class Model>
void zero_gradients(Model& m) {
  m.parameters([](auto& p) {
    if (p.trainable()) std::fill_n(p.gradient.data(), p.gradient.size(), 0);
  });
}
/// Not a number, in any format.
template <class Space>
void poison(accrete::arena<Space> const& memory) {
  std::memset(memory.room().data, 0xFF, std::size_t(memory.room().size()));
}
template <class B>
void poison(accrete::model::stack_workspace<B> const& w) {
  poison(w.memory);
  poison(w.passing);
}
/// Plain gradient descent.
template <class Model>
void descend(Model& m, double rate) {
  m.parameters([&](auto& p) {
    if (!p.trainable()) return;
    accumulate(m.context(), -rate, p.gradient.view(), p.value.view());
    p.refresh(m.context());
  });
}

/// One student under one teacher, with the buffers of a step.
template <class Student>
class step_by_hand {
 public:
  using backend_type = typename Student::backend_type;
  using batch_type = accrete::data::ragged_batch;

  step_by_hand(accrete::teacher<backend_type>& t, Student& s, accrete::index_t capacity,
               accrete::distillation::slice_lengths slices = {4, 3})
      : workspace(s.make_workspace(capacity)),
        teacher_(t),
        student_(s),
        teacher_workspace_(t.make_workspace(capacity)),
        head_(t.config().vocab_size, slices) {}
  step_by_hand(accrete::teacher<backend_type>& t, Student& s, batch_type const& batch,
               accrete::distillation::slice_lengths slices = {4, 3})
      : step_by_hand(t, s, batch.num_tokens(), slices) {
    see(batch);
  }

  /// Takes up a batch, which must live on, and asks the teacher. The loss becomes a mean over its targets.
  void see(batch_type const& batch) {
    batch_ = accrete::model::views_of(batch);
    weights.per_target = batch.num_targets > 0 ? 1.0 / double(batch.num_targets) : 1.0;
    teacher_hidden_ = room_.hold(teacher_.context(), teacher_.forward(batch_, teacher_workspace_));
  }
  accrete::distillation::loss_sums losses() { return run(false); }
  /// Adds to the gradients of what trains.
  accrete::distillation::loss_sums step() { return run(true); }
  double objective() {
    auto const sums = losses();
    return weights.per_target * (weights.alpha * sums.kd + weights.gamma * sums.ce);
  }
  [[nodiscard]] accrete::model::matrix_in<backend_type> teacher_hidden() const { return teacher_hidden_; }
  /// What the student's head reads.
  std::vector<double> hidden() { return named("", student_.forward(batch_, workspace)).numbers; }

  typename Student::stack_type::workspace workspace;
  accrete::distillation_weights weights{1.5, 0.7, 0.3, 1.0};

 private:
  accrete::distillation::loss_sums run(bool backward) {
    auto const hidden = student_.forward(batch_, workspace);
    auto const dhidden = backward ? workspace.dhidden.slice(0, hidden.rows()) : decltype(workspace.dhidden){};
    auto const sums = head_.distill(student_.context(), teacher_hidden_, teacher_.head()->view(), hidden,
                                    student_.head(), batch_.targets, weights, dhidden);
    if (!backward) return sums;
    poison(workspace.passing);  // others may have worked there
    student_.backward(batch_, workspace);
    return sums;
  }

  accrete::teacher<backend_type>& teacher_;
  Student& student_;
  typename accrete::teacher<backend_type>::workspace teacher_workspace_;
  accrete::distillation::vocabulary_head<backend_type> head_;
  accrete::model::token_batch<typename backend_type::space> batch_;
  accrete::model::operand_room<backend_type> room_;
  accrete::model::matrix_in<backend_type> teacher_hidden_;
};

/// How one named weight's gradient compares with central differences of the objective.
struct gradient_report {
  std::string name;
  double error;  ///< relative, in the L2 norm
  double size;   ///< L2 norm of the gradient: an error of nothing says nothing
};

template <class Student>
std::vector<gradient_report> gradient_reports(Student& s, step_by_hand<Student>& d) {
  zero_gradients(s);
  d.step();
  std::vector<gradient_report> all;
  s.parameters([&](auto& p) {
    if (!p.trainable()) return;
    for (auto const& part : p.parts) {
      auto const gradient = p.gradient.view().slice(part.first, part.rows);
      double const error = relative_gradient_error(p.value.view().slice(part.first, part.rows), gradient,
                                                   [&] { return d.objective(); });
      all.push_back({part.name, error, norm_of(named("", gradient).numbers)});
    }
  });
  return all;
}

}  // namespace test
