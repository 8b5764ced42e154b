#include "accrete/study/statistics.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace study = accrete::study;

TEST_CASE("an estimate of several seeds has Student's 95% interval", "[study][statistics]") {
  // Deviations -1, 0, 1: variance 1, standard error 1/sqrt(3), t(2) = 4.303.
  auto const three = study::estimate_of({2.0, 3.0, 4.0});
  CHECK(three.count == 3);
  CHECK(three.mean == Approx(3.0).epsilon(1e-12));
  CHECK(three.half_width == Approx(2.4843).epsilon(1e-4));
  // Two values d apart: t(1) d / 2.
  auto const two = study::estimate_of({1.0, 1.5});
  CHECK(two.mean == Approx(1.25).epsilon(1e-12));
  CHECK(two.half_width == Approx(12.7062 * 0.25).epsilon(1e-4));
  // Deviations -3, -1, 1, 3: variance 20/3, standard error sqrt(5/3), t(3) = 3.182.
  CHECK(study::estimate_of({0.0, 2.0, 4.0, 6.0}).half_width ==
        Approx(3.1824 * std::sqrt(5.0 / 3.0)).epsilon(1e-3));
}

TEST_CASE("an estimate has no interval from one seed, and no mean from none", "[study][statistics]") {
  auto const one = study::estimate_of({5.5});
  CHECK(one.mean == 5.5);
  CHECK(one.half_width == 0.0);
  CHECK(one.count == 1);
  CHECK(study::estimate_of({}).count == 0);
}

TEST_CASE("t_quantile meets published values on both sides of its table's end", "[study][statistics]") {
  struct known {
    std::size_t degrees;
    double t;
  };
  for (auto const& [degrees, t] :
       {known{1, 12.7062}, known{4, 2.7764}, known{9, 2.2622}, known{29, 2.0452}, known{30, 2.0423},
        known{31, 2.0395}, known{40, 2.0211}, known{60, 2.0003}, known{120, 1.9799}, known{100000, 1.9600}}) {
    INFO(degrees);
    CHECK(study::t_quantile(degrees) == Approx(t).margin(6e-4));
  }
}

TEST_CASE("numbers carry no digit that their seeds do not", "[study][statistics]") {
  using study::estimate;
  CHECK(study::text_of(estimate{}) == "-");
  CHECK(study::text_of({2.76034, 0, 1}) == "2.76");
  CHECK(study::text_of({0.0334, 0, 1}, true) == "+0.03");
  CHECK(study::text_of({-0.0334, 0, 1}, true) == "-0.03");
  // The interval's first two digits, the mean to the same place; never more than four decimals nor less than
  // one.
  CHECK(study::text_of({2.76034, 0.0123, 3}) == "2.760 ± 0.012");
  CHECK(study::text_of({2.76034, 0.123, 3}) == "2.76 ± 0.12");
  CHECK(study::text_of({2.76034, 1.23, 3}) == "2.8 ± 1.2");
  CHECK(study::text_of({2.76034, 123.0, 3}) == "2.8 ± 123.0");
  CHECK(study::text_of({-0.0332, 0.00123, 3}, true) == "-0.0332 ± 0.0012");
  CHECK(study::text_of({-0.0332, 0.0000123, 3}, true) == "-0.0332 ± 0.0000");
  // Equal seeds have an interval of width nought: no reason for more digits.
  CHECK(study::text_of({2.76034, 0, 2}) == "2.76 ± 0.00");
}

TEST_CASE("a number that rounds to nought has no sign", "[study][statistics]") {
  CHECK(study::text_of({-0.0004, 0, 1}, true) == "0.00");
  CHECK(study::text_of({+0.0004, 0, 1}, true) == "0.00");
  CHECK(study::text_of({-0.0004, 0, 1}) == "0.00");
}

TEST_CASE("rough numbers have three digits", "[study][statistics]") {
  CHECK(study::rough_text(19.6912) == "19.7");
  CHECK(study::rough_text(215.4) == "215");
  CHECK(study::rough_text(99.96) == "100");
  CHECK(study::rough_text(12345.0) == "12345");
  CHECK(study::rough_text(6.02e23) == "6.0e+23");
}
