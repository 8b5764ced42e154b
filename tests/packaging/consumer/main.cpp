// A program of somebody else, with something of every library that the headers want linked.
#include <accrete/accrete.hpp>
#include <accrete/data/normal_form.hpp>
#include <accrete/data/split_step.hpp>
#include <accrete/data/word_splitter.hpp>

#include <cstdio>
#include <string>

int main() {
  accrete::random_stream const stream(accrete::seed{42}, "packaging");
  accrete::tensor<float, 2> table({2, 3});
  for (accrete::index_t i = 0; i < table.size(); ++i) table.data()[i] = float(stream.uniform(unsigned(i)));
  accrete::cpu::backend<float> const ctx(2);
  scale(ctx, 2.0, table.view(), table.view());

  accrete::data::word_splitter const splitter(accrete::data::gpt2_step().pattern);
  auto memory = splitter.make_memory();
  int words = 0;
  splitter.split("built up in depth", memory, [&](std::string_view) { ++words; });

  std::string text;  // a letter and its mark become one
  bool const composed =
      accrete::data::normalizer(accrete::data::normal_form::nfc).apply("o\xCC\x88", text) == "\xC3\xB6";

  std::printf("accrete %d.%d: %td values, %d words\n", ACCRETE_VERSION_MAJOR, ACCRETE_VERSION_MINOR,
              table.size(), words);
  return table.size() == 6 && words == 4 && composed ? 0 : 1;
}
