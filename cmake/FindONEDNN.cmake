# ONEDNN::ONEDNN; the package that Debian ships wants OpenCL's headers, which nothing here includes.
find_path(ONEDNN_INCLUDE_DIR dnnl.h)
find_library(ONEDNN_LIBRARY NAMES dnnl)
mark_as_advanced(ONEDNN_INCLUDE_DIR ONEDNN_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  ONEDNN REQUIRED_VARS ONEDNN_LIBRARY ONEDNN_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "accrete multiplies matrices faster with oneDNN (on Debian: apt-get install libdnnl-dev)")

if(ONEDNN_FOUND AND NOT TARGET ONEDNN::ONEDNN)
  add_library(ONEDNN::ONEDNN UNKNOWN IMPORTED)
  set_target_properties(ONEDNN::ONEDNN PROPERTIES IMPORTED_LOCATION "${ONEDNN_LIBRARY}"
                                                   INTERFACE_INCLUDE_DIRECTORIES "${ONEDNN_INCLUDE_DIR}")
endif()
