# Proxy and node as whole programs: the linker optimises all their sources together. Libraries have machine
# code, too, so that tests and tools link as fast as without. memcached's C is compiled as its authors test it.
if(ELASTRIPE_WHOLE_PROGRAM AND NOT ELASTRIPE_SANITIZE AND NOT ELASTRIPE_MUTANTS
   AND NOT CMAKE_BUILD_TYPE STREQUAL Debug)
  set(whole_program_options -flto=thin -ffat-lto-objects)
  # What has not changed is not compiled again.
  set(whole_program_link_options -Wl,--thinlto-cache-dir=${CMAKE_BINARY_DIR}/thinlto)
endif()

# `target` is a part of such a program.
function(elastripe_part_of_program target)
  target_compile_options(${target} PRIVATE ${whole_program_options})
endfunction()

# `target` is one.
function(elastripe_whole_program target)
  elastripe_part_of_program(${target})
  target_link_options(${target} PRIVATE ${whole_program_options} ${whole_program_link_options})
endfunction()
