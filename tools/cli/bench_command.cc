// elastripe bench: the benchmarks are a program of their own, elastripe-bench, and this one becomes
// it. In a build tree it is built when it is first asked for.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/cli/commands.h"
#include "tools/cli/process.h"

namespace elastripe::cli {
namespace {

// The program beside this one.
Result<std::filesystem::path> find_or_build() {
  const auto directory = own_directory();
  if (!directory) return std::unexpected(directory.error());
  auto program = *directory / "elastripe-bench";
  std::error_code ignored;
  if (std::filesystem::exists(program, ignored)) return program;
  const auto tree = directory->parent_path();
  if (!std::filesystem::exists(tree / "CMakeCache.txt", ignored)) {
    return fail("the benchmarks are not installed: there is no {}", program.string());
  }
  fmt::print(stderr, "elastripe: building elastripe-bench, the first time only\n");
  std::fflush(stderr);
  if (!run_beside({"cmake", "--build", tree.string(), "--target", "elastripe-bench"})) {
    return fail("elastripe-bench could not be built in {}", tree.string());
  }
  return program;
}

// Returns only if that fails.
Result<> become(const std::filesystem::path& program, std::vector<std::string> words) {
  words.insert(words.begin(), program.string());
  const std::vector<char*> argv = pointers_to(words);
  ::execv(argv[0], argv.data());
  return fail("cannot run {}: {}", program.string(), std::strerror(errno));
}

}  // namespace

void add_bench_command(CLI::App& app, Globals& globals) {
  CLI::App* command =
      app.add_subcommand("bench", "Measures elastripe beside its peers (elastripe bench --help)");
  command->set_help_flag();  // every word that follows is for the other program
  command->fallthrough(false);
  command->prefix_command();
  command->callback([command, &globals] {
    std::vector<std::string> words = command->remaining();
    if (globals.json) words.insert(words.begin(), "--json");
    const auto program = find_or_build();
    report(globals, program ? become(*program, std::move(words))
                            : Result<>(std::unexpected(program.error())));
  });
}

}  // namespace elastripe::cli
