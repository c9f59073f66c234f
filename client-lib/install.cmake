# The client as a shared library, with its headers, for CMake (find_package(elastripe_client)) and for
# pkg-config (elastripe-client).
include(CMakePackageConfigHelpers)

elastripe_client_library(elastripe_client_shared SHARED)
set_target_properties(elastripe_client_shared PROPERTIES
  OUTPUT_NAME elastripe_client VERSION ${PROJECT_VERSION} EXPORT_NAME client
  # Before version 1.0 each 0.N may have another interface.
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_include_directories(elastripe_client_shared
  INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# Behind the options of programs, which have none of it.
target_compile_options(elastripe_client_shared PRIVATE -fPIC)
get_target_property(options elastripe_client_shared LINK_OPTIONS)
if(options)
  list(REMOVE_ITEM options -pie)
  set_target_properties(elastripe_client_shared PROPERTIES LINK_OPTIONS "${options}")
endif()
# Nothing but what the installed headers declare is a part of the interface.
set(exports ${CMAKE_CURRENT_SOURCE_DIR}/exports.map)
target_link_options(elastripe_client_shared PRIVATE LINKER:--version-script=${exports})
set_target_properties(elastripe_client_shared PROPERTIES LINK_DEPENDS ${exports})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/elastripe_client)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/elastripe_client-config-version.cmake
  COMPATIBILITY SameMinorVersion)
# Installed files find each other, so that the prefix may be any, and move.
file(RELATIVE_PATH prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(elastripe-client.pc.in elastripe-client.pc @ONLY)

# Whoever has built other targets only installs those.
install(CODE [[
  if(NOT EXISTS "$<TARGET_FILE:elastripe_client_shared>")
    message(STATUS "The C++ client is not built, and not installed")
    return()
  endif()
]])
install(TARGETS elastripe_client_shared EXPORT elastripe_client)
install(EXPORT elastripe_client NAMESPACE elastripe:: DESTINATION ${package}
  FILE elastripe_client-config.cmake)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/elastripe_client-config-version.cmake
  DESTINATION ${package})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/elastripe-client.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/elastripe)
