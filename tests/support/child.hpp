#pragma once
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

/// Processes that a test may kill. They must not be forked while other threads run.
namespace test {

/// A child that runs `body` and exits with 0, or with 3 where that throws.
template <class Body>
pid_t start_child(Body&& body) {
  pid_t const child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (std::exception const&) {
      ::_exit(3);
    }
    ::_exit(0);
  }
  return child;
}
/// How a child ended, as waitpid tells it.
inline int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}
template <class Body>
int status_of_child(Body&& body) {
  return status_of(start_child(body));
}

}  // namespace test
