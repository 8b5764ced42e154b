#include <dlfcn.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/distill/teacher_cache.hpp"
#include "accrete/distill/teacher_states.hpp"
#include "accrete/distill/vocabulary_head.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/counted_new.hpp"
#include "support/files.hpp"
#include "support/matrix.hpp"
#include "support/tiny_model.hpp"

namespace {

using namespace accrete;
using test::error_of;
using test::one_line;
using test::tiny_teacher;
namespace fs = std::filesystem;

/// Documents of 2 to 20 tokens.
data::corpus tiny_corpus(index_t documents = 9, std::string const& purpose = "test/text") {
  data::corpus text;
  random_stream const stream(seed{5}, purpose);
  std::uint64_t at = 0;
  for (index_t d = 0; d < documents; ++d) {
    std::vector<std::int32_t> tokens(std::size_t(2 + (d * 7) % 19));
    for (auto& t : tokens) t = std::int32_t(stream.below(at++, std::uint64_t(test::tiny_vocabulary)));
    text.append(tokens, {});
  }
  return text;
}

data::ragged_batch batch_of(data::corpus const& text, std::vector<index_t> const& documents) {
  data::ragged_batch batch;
  for (index_t d : documents) batch.append(text.document(d), d);
  return batch;
}
data::shard all_of(data::corpus const& text) {
  data::shard documents(std::size_t(text.num_documents()));
  std::iota(documents.rbegin(), documents.rend(), 0);  // not the corpus' own order
  return documents;
}

template <class B>
void spoil(teacher<B>& t) {  // whoever asks it now gets other numbers
  auto gain = t.final_norm().as_vector();
  for (index_t i = 0; i < gain.size(); ++i) gain(i) *= 3;
}

template <class V>
test::matrix<double> kept(V from) {
  test::matrix<double> to(from.rows(), from.columns());
  for (index_t i = 0; i < from.rows(); ++i)
    for (index_t j = 0; j < from.columns(); ++j) to(i, j) = double(from(i, j));
  return to;
}

using f64 = reference::backend<double>;
auto const silent = [](index_t, index_t) { return true; };

/// Where a tensor's bytes begin in a file.
std::size_t place_of(fs::path const& path, char const* name) {
  io::safetensors_file const file(path);
  return std::size_t(file.tensor(name).bytes.data() - file.map().bytes().data());
}

std::uint64_t pretended_free = std::numeric_limits<std::uint64_t>::max();  // bytes; the largest: the truth

}  // namespace

// Stands before the C library's, so that a disk can be full for std::filesystem::space.
extern "C" int statvfs(char const* path, struct statvfs* facts) noexcept {
  using function = int (*)(char const*, struct statvfs*);
  static auto const real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "statvfs"));
  int const code = real(path, facts);
  if (code == 0 && pretended_free != std::numeric_limits<std::uint64_t>::max()) {
    facts->f_frsize = 1;
    facts->f_bavail = pretended_free;
  }
  return code;
}

TEMPLATE_TEST_CASE("teacher cache gives what the live teacher gives, however batches are composed",
                   "[distill][teacher_cache]", reference::backend<double>, cpu::backend<double>,
                   reference::backend<float>, cpu::backend<float>) {
  using B = TestType;
  using cache_type = distillation::teacher_cache<B>;
  double const bound = std::is_same_v<typename B::scalar, float> ? 1e-6 : 1e-12;
  test::temporary_folder const folder;
  auto t = tiny_teacher<B>();
  auto const text = tiny_corpus();
  index_t const capacity = GENERATE(20, 33, 1000);

  auto cache = cache_type::open_or_build(folder.path(), t, text, all_of(text), capacity);
  CHECK_FALSE(cache.was_reused());
  CHECK(cache.reason().empty());
  CHECK(cache.num_tokens() == text.num_tokens());
  CHECK(cache.num_documents() == 9);
  distillation::teacher_states<B> live(t, 64);
  distillation::teacher_states<B> cached(std::move(cache), 64);
  CHECK(live.is_live());
  CHECK_FALSE(cached.is_live());
  index_t const vocabulary = t.config().vocab_size;
  distillation::vocabulary_head<B> head(vocabulary, {16, 8});

  for (auto const& documents :
       std::vector<std::vector<index_t>>{{0}, {3, 1, 4}, {8, 7, 0, 2}, {5}, {6, 4}, {4, 4}}) {
    auto const batch = batch_of(text, documents);
    auto const expected = kept(live.hidden(batch));
    auto const got = kept(cached.hidden(batch));
    CHECK(test::difference(expected, got) <= bound * 4);  // elements reach 4
    auto const targets = model::views_of(batch).targets;
    auto const loss = [&](auto& states) {
      return head.cross_entropy_of(t.context(), states.hidden(batch), t.head()->view(), targets).ce /
             double(batch.num_targets);
    };
    CHECK(loss(cached) == Approx(loss(live)).epsilon(0).margin(bound));
  }
}

TEST_CASE("teacher cache holds hidden states as the file says, each document alone",
          "[distill][teacher_cache]") {
  test::temporary_folder const folder;
  auto t = tiny_teacher<f64>();
  auto const text = tiny_corpus();
  data::shard const documents{7, 2, 5};
  auto const cache = distillation::teacher_cache<f64>::open_or_build(folder.path(), t, text, documents, 40);
  CHECK(folder.entries() == 1);

  auto const bytes = fs::file_size(cache.path());
  auto const needed = distillation::teacher_cache<f64>::bytes_needed(t, text, documents);
  CHECK(bytes <= needed);
  CHECK(bytes + distillation::teacher_cache<f64>::header_room >= needed);

  io::safetensors_file const file(cache.path());
  CHECK(file.metadata().at("teacher") == t.identity());
  CHECK(file.metadata().at("dtype") == "F64");
  CHECK(file.metadata().at("hidden_size") == "12");
  auto const& hidden = file.tensor("hidden");
  index_t const tokens = text.length(7) + text.length(2) + text.length(5);
  CHECK(hidden.shape == std::vector<index_t>{tokens, 12});
  index_t numbers[3], offsets[4];
  std::memcpy(numbers, file.tensor("documents").bytes.data(), sizeof numbers);
  std::memcpy(offsets, file.tensor("offsets").bytes.data(), sizeof offsets);
  CHECK(std::vector<index_t>(numbers, numbers + 3) == documents);
  auto workspace = t.make_workspace(64);
  for (std::size_t i = 0; i < 3; ++i) {
    auto const alone = batch_of(text, {documents[i]});
    auto const expected = t.forward(model::views_of(alone), workspace);
    REQUIRE(offsets[i + 1] - offsets[i] == expected.rows());
    test::matrix<double> got(expected.rows(), 12);
    std::memcpy(got.view().data, hidden.bytes.data() + std::size_t(offsets[i]) * 12 * 8,
                std::size_t(expected.size()) * 8);
    CHECK(test::difference(kept(expected), got) <= 1e-12);
  }

  // Into rows that lie apart, as columns of something wider.
  auto const batch = batch_of(text, {5, 7});
  test::matrix<double> wide(batch.num_tokens(), 12, 3), narrow(batch.num_tokens(), 12);
  cache.gather(batch, wide);
  cache.gather(batch, narrow);
  CHECK(test::difference(wide, narrow) == 0);
  CHECK(wide.guards_hold());
}

TEST_CASE("teacher cache is reused without running the teacher", "[distill][teacher_cache]") {
  test::temporary_folder const folder;
  auto t = tiny_teacher<f64>();
  auto const text = tiny_corpus();
  auto const documents = all_of(text);
  std::vector<std::pair<index_t, index_t>> calls;
  auto const note = [&](index_t done, index_t all) { calls.emplace_back(done, all); };
  using cache_type = distillation::teacher_cache<f64>;
  auto const first = cache_type::open_or_build(folder / "a" / "b", t, text, documents, 24, note);
  REQUIRE(calls.size() > 3);
  CHECK(calls.front() == std::pair<index_t, index_t>(0, text.num_tokens()));
  CHECK(calls.back() == std::pair(text.num_tokens(), text.num_tokens()));
  CHECK(std::is_sorted(calls.begin(), calls.end()));

  auto const batch = batch_of(text, {1, 8});
  test::matrix<double> before(batch.num_tokens(), 12), after(batch.num_tokens(), 12);
  first.gather(batch, before);
  spoil(t);
  calls.clear();
  auto const second = cache_type::open_or_build(folder / "a" / "b", t, text, documents, 99, note);
  CHECK(calls.empty());
  CHECK(second.was_reused());
  CHECK(second.reason().empty());
  CHECK(second.path() == first.path());
  second.gather(batch, after);
  CHECK(test::difference(before, after) == 0);
}

TEST_CASE("teacher cache has another file for another text, teacher, length, order, dtype or backend",
          "[distill][teacher_cache]") {
  test::temporary_folder const folder;
  auto t = tiny_teacher<f64>();
  auto const text = tiny_corpus();
  auto const documents = all_of(text);
  std::vector<fs::path> paths;
  auto const build = [&](auto& of, data::corpus const& from, data::shard const& which) {
    using B = std::remove_cvref_t<decltype(of.context())>;
    auto const made = distillation::teacher_cache<B>::open_or_build(folder.path(), of, from, which, 64);
    CHECK_FALSE(made.was_reused());
    paths.push_back(made.path());
  };
  build(t, text, documents);
  build(t, tiny_corpus(9, "test/other text"), documents);
  auto changed = text;
  changed.tokens[20] = changed.tokens[20] == 0 ? 1 : 0;  // one token
  build(t, changed, documents);
  auto moved = text;  // one boundary, the same tokens in the same order
  ++moved.offsets[4];
  build(t, text, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  build(t, moved, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  auto other = tiny_teacher<f64>({.weights = seed{12}});
  build(other, text, documents);
  build(t, text, {documents.begin(), documents.end() - 1});
  auto swapped = documents;
  std::swap(swapped[2], swapped[3]);
  build(t, text, swapped);
  auto narrow = tiny_teacher<reference::backend<float>>();
  build(narrow, text, documents);
  auto fast = tiny_teacher<cpu::backend<double>>();
  build(fast, text, documents);
  std::sort(paths.begin(), paths.end());
  CHECK(std::unique(paths.begin(), paths.end()) == paths.end());
  CHECK(folder.entries() == std::ptrdiff_t(paths.size()));
  CHECK(distillation::teacher_cache<f64>::open_or_build(folder.path(), t, text, documents, 64).was_reused());
}

TEST_CASE("teacher cache builds a file anew that is cut, changed or of something else, and says why",
          "[distill][teacher_cache]") {
  test::temporary_folder const folder;
  auto t = tiny_teacher<f64>();
  auto const text = tiny_corpus();
  auto const documents = all_of(text);
  using cache_type = distillation::teacher_cache<f64>;
  auto const path = cache_type::open_or_build(folder.path(), t, text, documents, 64).path();
  std::string const good = test::read_file(path);
  std::size_t const header =
      8 + std::size_t(io::load<std::uint64_t>(reinterpret_cast<std::byte const*>(good.data())));

  std::vector<std::string> bad{"",
                               "x",
                               good.substr(0, 7),
                               good.substr(0, header),
                               good.substr(0, header - 5),
                               good.substr(0, good.size() / 2),
                               good.substr(0, good.size() - 1),
                               good + "x"};
  auto const replaced = [&](std::string const& what, std::string const& by) {
    auto other = good;
    auto const at = other.find(what);
    REQUIRE(at < header);
    REQUIRE(what.size() == by.size());
    return other.replace(at, what.size(), by);
  };
  bad.push_back(replaced(t.identity(), std::string(t.identity().size(), 'x')));
  bad.push_back(replaced("\"F64\",\"shape\":[", "\"I64\",\"shape\":["));
  bad.push_back(replaced("teacher cache 1", "teacher cache 2"));
  bad.push_back(replaced("\"checksums\"", "\"checksumz\""));
  bad.push_back(replaced("\"corpus\"", "\"korpus\""));
  auto offset = good;
  offset[place_of(path, "offsets") + 8] ^= 1;
  bad.push_back(offset);

  for (auto const& bytes : bad) {
    test::write_file(path, bytes);
    auto const again = cache_type::open_or_build(folder.path(), t, text, documents, 64);
    CHECK_FALSE(again.was_reused());
    CHECK(one_line(again.reason()));
    CHECK(test::read_file(path) == good);
    CHECK(folder.entries() == 1);
  }

  // Every single bit of the header: noticed, or without a meaning; never other numbers.
  auto const batch = batch_of(text, documents);
  test::matrix<double> expected(batch.num_tokens(), 12), got(batch.num_tokens(), 12);
  cache_type::open_or_build(folder.path(), t, text, documents, 64).gather(batch, expected);
  spoil(t);  // a file that is built anew now differs
  int reused = 0, rebuilt = 0;
  for (std::size_t bit = 0; bit < header * 8; bit += 41) {
    auto flipped = good;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << (bit % 8)));
    test::write_file(path, flipped);
    auto const again = cache_type::open_or_build(folder.path(), t, text, documents, 64);
    if (!again.was_reused()) {
      rebuilt += one_line(again.reason());
      continue;
    }
    ++reused;
    again.gather(batch, got);
    REQUIRE(test::difference(expected, got) == 0);
  }
  CHECK(rebuilt > 20 * reused);
}

TEST_CASE("teacher cache never hands on a row in which a bit has changed", "[distill][teacher_cache]") {
  test::temporary_folder const folder;
  auto t = tiny_teacher<f64>();
  auto const text = tiny_corpus();
  auto const documents = all_of(text);  // 8, 7, .., 0
  using cache_type = distillation::teacher_cache<f64>;
  auto const path = cache_type::open_or_build(folder.path(), t, text, documents, 64).path();
  std::string const good = test::read_file(path);
  auto const hidden = place_of(path, "hidden");
  auto const sums = place_of(path, "checksums");
  auto const first_bytes = std::size_t(text.length(8)) * 12 * 8;

  auto const touched = batch_of(text, {8}), others = batch_of(text, {7, 6, 5, 4, 3, 2, 1, 0});
  test::matrix<double> a(touched.num_tokens(), 12), b(others.num_tokens(), 12);
  for (std::size_t byte :
       {hidden, hidden + 1, hidden + first_bytes - 1, hidden + first_bytes / 2, sums, sums + 7}) {
    auto flipped = good;
    flipped[byte] ^= 16;
    test::write_file(path, flipped);
    auto const cache = cache_type::open_or_build(folder.path(), t, text, documents, 64);
    CHECK(cache.was_reused());
    auto const said = error_of([&] { cache.gather(touched, a); });
    CHECK(one_line(said));
    CHECK_THAT(said, Catch::ContainsSubstring("document 8") && Catch::ContainsSubstring("delete the file"));
    CHECK_FALSE(error_of([&] { cache.gather(touched, a); }).empty());  // and again
    CHECK(error_of([&] { cache.gather(others, b); }).empty());
  }
}

TEST_CASE("teacher cache leaves nothing behind when a build is stopped", "[distill][teacher_cache]") {
  test::temporary_folder const folder;
  auto t = tiny_teacher<f64>();
  auto const text = tiny_corpus();
  auto const documents = all_of(text);
  using cache_type = distillation::teacher_cache<f64>;
  for (index_t stop_at : {index_t(0), index_t(30), text.num_tokens()}) {
    CHECK_THROWS_AS(cache_type::open_or_build(folder.path(), t, text, documents, 20,
                                              [&](index_t done, index_t) { return done < stop_at; }),
                    distillation::build_interrupted);
    CHECK(folder.entries() == 0);
    CHECK_THROWS_AS(cache_type::open_or_build(folder.path(), t, text, documents, 20,
                                              [&](index_t done, index_t) {
                                                if (done >= stop_at) throw std::runtime_error("stop");
                                              }),
                    std::runtime_error);
    CHECK(folder.entries() == 0);
  }
  // A stopped rebuild keeps even the bad file that was there.
  auto const path = cache_type::open_or_build(folder.path(), t, text, documents, 20).path();
  test::write_file(path, "bad");
  CHECK_THROWS_AS(cache_type::open_or_build(folder.path(), t, text, documents, 20,
                                            [](index_t done, index_t) { return done < 30; }),
                  distillation::build_interrupted);
  CHECK(test::read_file(path) == "bad");
  CHECK(folder.entries() == 1);
}

TEST_CASE("teacher cache survives two processes that build the same file", "[distill][teacher_cache]") {
  test::temporary_folder const folder;
  auto t = tiny_teacher<f64>();
  auto const text = tiny_corpus();
  auto const documents = all_of(text);
  using cache_type = distillation::teacher_cache<f64>;
  auto const batch = batch_of(text, {2, 8});
  test::matrix<double> expected(batch.num_tokens(), 12), got(batch.num_tokens(), 12);

  // In the middle of this build another process does all of its own.
  bool other_went_well = false;
  auto const first =
      cache_type::open_or_build(folder.path(), t, text, documents, 20, [&](index_t done, index_t) {
        if (done == 0 || other_went_well) return true;
        pid_t const child = ::fork();
        if (child == 0) {
          bool well = false;
          try {
            well = !cache_type::open_or_build(folder.path(), t, text, documents, 20, silent).was_reused();
          } catch (...) {
          }
          ::_exit(well ? 0 : 1);
        }
        int status = 1;
        ::waitpid(child, &status, 0);
        other_went_well = status == 0;
        return other_went_well;
      });
  CHECK(folder.entries() == 1);
  first.gather(batch, expected);
  auto const second = cache_type::open_or_build(folder.path(), t, text, documents, 20);
  CHECK(second.was_reused());
  fs::remove(second.path());
  cache_type::open_or_build(folder.path(), t, text, documents, 20);  // replaced under its readers
  second.gather(batch, got);
  CHECK(test::difference(expected, got) == 0);
}

TEST_CASE("teacher cache says what a disk lacks before the teacher runs", "[distill][teacher_cache]") {
  test::temporary_folder const folder;
  auto t = tiny_teacher<f64>();
  auto const text = tiny_corpus();
  auto const documents = all_of(text);
  using cache_type = distillation::teacher_cache<f64>;
  auto const needed = cache_type::bytes_needed(t, text, documents);
  int calls = 0;
  auto const count = [&](index_t, index_t) { ++calls; };
  pretended_free = needed - 1;
  auto const said = error_of([&] { cache_type::open_or_build(folder.path(), t, text, documents, 64, count); });
  pretended_free = needed;
  auto const enough = error_of([&] { cache_type::open_or_build(folder.path(), t, text, {3}, 64, count); });
  pretended_free = std::numeric_limits<std::uint64_t>::max();
  CHECK(one_line(said));
  CHECK_THAT(said, Catch::ContainsSubstring(std::to_string(needed) + " bytes") &&
                       Catch::ContainsSubstring(std::to_string(needed - 1) + " bytes free"));
  CHECK(enough.empty());
  CHECK(calls == 2);  // of the one that had room
  CHECK(folder.entries() == 1);
}

TEST_CASE("teacher cache leaves nothing behind when a disk fills up on the way", "[distill][teacher_cache]") {
  test::temporary_folder const folder;
  auto t = tiny_teacher<f64>();
  auto const text = tiny_corpus(600);
  auto const documents = all_of(text);
  using cache_type = distillation::teacher_cache<f64>;
  REQUIRE(cache_type::bytes_needed(t, text, documents) > 400'000);
  pid_t const child = ::fork();
  if (child == 0) {
    std::string said;
    index_t reached = 0;
    try {
      test::file_size_limit const limit(100'000);
      said = error_of([&] {
        cache_type::open_or_build(folder.path(), t, text, documents, 64,
                                  [&](index_t done, index_t) { reached = done; });
      });
    } catch (...) {
    }
    ::_exit(one_line(said) && reached > 0 && reached < text.num_tokens() ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(folder.entries() == 0);
}

TEST_CASE("teacher cache refuses folders it cannot write and documents the teacher cannot read",
          "[distill][teacher_cache]") {
  test::temporary_folder const folder;
  auto t = tiny_teacher<f64>();
  auto text = tiny_corpus();
  int calls = 0;
  auto const said = [&](fs::path const& where, data::shard const& documents, index_t capacity) {
    auto const line = error_of([&] {
      distillation::teacher_cache<f64>::open_or_build(where, t, text, documents, capacity,
                                                      [&](index_t, index_t) { ++calls; });
    });
    CHECK(one_line(line));
    CHECK(calls == 0);
    return line;
  };
  auto const plain = test::write_file(folder / "plain", "a file");
  CHECK_THAT(said(plain, {1}, 64), Catch::ContainsSubstring("plain"));
  CHECK_THAT(said(plain / "below", {1}, 64), Catch::ContainsSubstring("below"));
  if (::geteuid() != 0) {
    fs::create_directory(folder / "closed");
    fs::permissions(folder / "closed", fs::perms::owner_read | fs::perms::owner_exec);
    CHECK_THAT(said(folder / "closed", {1}, 64), Catch::ContainsSubstring("closed"));
  }
  CHECK_THAT(said(folder.path(), {}, 64), Catch::ContainsSubstring("0 documents"));
  CHECK_THAT(said(folder.path(), {9}, 64), Catch::ContainsSubstring("document 9"));
  CHECK_THAT(said(folder.path(), {-1}, 64), Catch::ContainsSubstring("document -1"));
  auto const length = text.length(8);
  CHECK_THAT(said(folder.path(), {1, 8}, length - 1), Catch::ContainsSubstring("document 8 of"));
  text.append(std::vector<std::int32_t>(33, 1), {});
  CHECK_THAT(said(folder.path(), {9}, 64), Catch::ContainsSubstring("the teacher's positions"));
  text.tokens[0] = test::tiny_vocabulary;
  CHECK_THAT(said(folder.path(), {0}, 64), Catch::ContainsSubstring("token id 23"));
  CHECK(folder.entries() <= 2);
}

TEMPLATE_TEST_CASE("a live teacher works in memory that is lent, and leaves its answer elsewhere",
                   "[distill][teacher_states]", reference::backend<double>, cpu::backend<float>,
                   cpu::backend<bfloat16>) {
  using B = TestType;
  auto t = tiny_teacher<B>();
  auto const text = tiny_corpus();
  distillation::teacher_states<B> own(t, 64), guest(t, 64), crowded(t, 64);
  tensor<std::byte, 1> room({index_t(1) << 20}), small({index_t(256)});
  for (auto const& documents : std::vector<std::vector<index_t>>{{0}, {3, 1, 4}, {8, 7}}) {
    auto const batch = batch_of(text, documents);
    auto const expected = kept(own.hidden(batch));
    auto const answer = guest.hidden(batch, room.view());
    std::fill_n(room.data(), room.size(), std::byte{0x5A});  // whoever lends it writes there again
    CHECK(test::difference(kept(answer), expected) == 0);
    CHECK(test::difference(kept(crowded.hidden(batch, small.view())), expected) == 0);
  }
  CHECK(guest.bytes() < own.bytes());
  CHECK(crowded.bytes() == own.bytes());
}

TEST_CASE("teacher states refuse batches that are too long or of another text, and allocate nothing",
          "[distill][teacher_states]") {
  test::temporary_folder const folder;
  auto t = tiny_teacher<f64>();
  auto const text = tiny_corpus();
  auto const open = [&](data::shard const& documents) {
    return distillation::teacher_cache<f64>::open_or_build(folder.path(), t, text, documents, 64);
  };
  distillation::teacher_states<f64> cached(open({0, 1, 2, 3, 4}), 40), live(t, 40);

  auto const refused = [&](auto& states, data::ragged_batch const& batch) {
    return one_line(error_of([&] { (void)states.hidden(batch); }));
  };
  auto const too_many = batch_of(text, {4, 4, 4, 4});
  REQUIRE(too_many.num_tokens() > 40);
  CHECK(refused(cached, too_many));
  CHECK(refused(live, too_many));
  data::ragged_batch long_one;
  long_one.append(std::vector<std::int32_t>(33, 1), 0);
  CHECK(refused(live, long_one));                              // past the teacher's positions
  CHECK(refused(cached, long_one));                            // not this document
  CHECK(refused(cached, batch_of(text, {5})));                 // not in the cache
  CHECK(refused(cached, batch_of(tiny_corpus(9, "x"), {4})));  // same number and length, other tokens
  data::ragged_batch nameless;
  nameless.append(text.document(1));
  CHECK(refused(cached, nameless));
  CHECK_FALSE(refused(live, nameless));
  CHECK_FALSE(refused(cached, batch_of(text, {4, 1})));
  auto const cache = open({0, 1});
  test::matrix<double> narrow(text.length(1), 11), low(text.length(1) - 1, 12);
  CHECK(one_line(error_of([&] { cache.gather(batch_of(text, {1}), narrow); })));
  CHECK(one_line(error_of([&] { cache.gather(batch_of(text, {1}), low); })));

  auto const batch = batch_of(text, {4, 1, 3});
  auto const asked = [&](auto& states) {
    (void)states.hidden(batch);
    auto const before = test::bytes_requested.load();
    (void)states.hidden(batch);
    return test::bytes_requested.load() - before;
  };
  auto const before = test::bytes_requested.load();
  (void)cached.hidden(batch);
  CHECK(test::bytes_requested.load() == before);
  // The teacher's own forward keeps small lists of views; nothing that grows with tokens.
  CHECK(asked(live) < 2048);
}
