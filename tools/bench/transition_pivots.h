// Tables, charts and goals of `elastripe bench transition`.
#pragma once

#include <map>
#include <string>

#include "tools/bench/report.h"

namespace elastripe::bench {

// What is made of the rows of its experiments (transition_cases.h), by their names.
void show_transitions(Report& report, std::map<std::string, Rows>& rows);

}  // namespace elastripe::bench
