// What a fuzzer is made of: fuzz_NAME.cc defines these two functions, fuzzer.cc makes a program of
// them (CONTRIBUTING.md, "Fuzzing").
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace elastripe::fuzz {

// Feeds the code under test with these bytes, and aborts where it breaks a promise. True: it took
// them for something, so that what lies behind its first checks was run too.
bool accepts(std::string_view input);

// Inputs to begin with, made by the project's own encoders: they are of today's formats. The
// program refuses to start when one of them is not accepted.
std::vector<std::string> seeds();

}  // namespace elastripe::fuzz
