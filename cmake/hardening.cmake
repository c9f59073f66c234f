# Hardening of all that is built, memcached's C included (docs/decisions.md says what it costs, and
# tests/build/test_hardening.py looks for it in the binaries).
add_compile_options(-fPIE -fstack-protector-strong -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  add_compile_options(-mbranch-protection=standard)
endif()
# Checked copies need an optimising compiler.
if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
# The standard library checks indices and empty optionals.
add_compile_options(-D_GLIBCXX_ASSERTIONS)
add_link_options(-pie LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
