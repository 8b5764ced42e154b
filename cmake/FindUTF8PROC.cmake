# UTF8PROC::UTF8PROC; Debian ships no CMake package of utf8proc that all versions agree on.
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h)
find_library(UTF8PROC_LIBRARY NAMES utf8proc)
mark_as_advanced(UTF8PROC_INCLUDE_DIR UTF8PROC_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  UTF8PROC REQUIRED_VARS UTF8PROC_LIBRARY UTF8PROC_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "accrete normalizes text with utf8proc (on Debian: apt-get install libutf8proc-dev)")

if(UTF8PROC_FOUND AND NOT TARGET UTF8PROC::UTF8PROC)
  add_library(UTF8PROC::UTF8PROC UNKNOWN IMPORTED)
  set_target_properties(UTF8PROC::UTF8PROC PROPERTIES IMPORTED_LOCATION "${UTF8PROC_LIBRARY}"
                                               INTERFACE_INCLUDE_DIRECTORIES "${UTF8PROC_INCLUDE_DIR}")
endif()
