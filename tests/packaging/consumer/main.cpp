// A program of somebody else.
#include <accrete/accrete.hpp>

#include <cstdio>

int main() {
  accrete::random_stream const stream(accrete::seed{42}, "packaging");
  double values[6];
  for (unsigned i = 0; i < 6; ++i) values[i] = stream.uniform(i);
  accrete::view<double, 2> const table(values, {2, 3});  // [2, 3]
  std::printf("accrete %d.%d: %td values\n", ACCRETE_VERSION_MAJOR, ACCRETE_VERSION_MINOR, table.size());
  return table.size() == 6 ? 0 : 1;
}
