"""Another project takes in client-lib: our warnings, -Werror and linker are not its own."""

from build_tree import CXX, SOURCE, run

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(theirs LANGUAGES CXX)
add_subdirectory({source}/client-lib client)
add_executable(theirs main.cc)
target_link_libraries(theirs PRIVATE elastripe_client)
"""
# -Wall would complain
MAIN = """
#include "client-lib/client.h"

int main(int argc, char**) {
  int unused;
  unsigned char narrowed = argc;
  return elastripe::client::parse_address("localhost:1") && narrowed > 0 ? 0 : 1;
}
"""


def test_a_project_with_warnings_of_its_own_builds(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(source=SOURCE))
    (tmp_path / "main.cc").write_text(MAIN)
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build",
        f"-DCMAKE_CXX_COMPILER={CXX}")
    commands = run("ninja", "-C", tmp_path / "build", "-v").stdout
    assert "-Werror" not in commands and "-Wall" not in commands and "lld" not in commands
    run(tmp_path / "build/theirs")
