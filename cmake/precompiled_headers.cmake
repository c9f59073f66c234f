# The headers of cmake/standard_headers.h, parsed once for all of our C++: a third of the processor time
# of a build goes into them otherwise. The sources include what they use all the same, and scripts/lint
# reads them without this.
#
# CMake's own precompiled headers hold the path of the build directory, so that no two checkouts could
# share an object in the compiler's cache. This one is compiled from standard input in /, and its
# bytes are the same everywhere.
set(headers ${CMAKE_CURRENT_LIST_DIR}/standard_headers.h)
set(precompiled ${CMAKE_BINARY_DIR}/standard_headers.pch)
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}")
get_property(options DIRECTORY PROPERTY COMPILE_OPTIONS)
list(FILTER options EXCLUDE REGEX COMPILE_LANGUAGE)  # warnings

add_custom_command(OUTPUT ${precompiled}
  COMMAND ${CMAKE_CXX_COMPILER} ${flags} ${options} ${CMAKE_CXX23_STANDARD_COMPILE_OPTION} -DFMT_SHARED
          -fpch-instantiate-templates -Xclang -fno-pch-timestamp -MD -MT ${precompiled}
          -MF ${precompiled}.d -x c++-header -o ${precompiled} - < ${headers}
  WORKING_DIRECTORY / DEPFILE ${precompiled}.d DEPENDS ${headers} VERBATIM
  COMMENT "Precompiling the standard library's headers")
add_custom_target(standard_headers DEPENDS ${precompiled})

add_dependencies(elastripe_flags standard_headers)
target_compile_options(elastripe_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include-pch ${precompiled}>")
