// Tables, charts and goals of `elastripe bench transition`.
#pragma once

#include <map>
#include <string>

#include "tools/bench/report.h"

namespace elastripe::bench {

// Of the rows of its experiments (transition_cases.h) by their names; nothing of one that has none.
void show_transitions(Report& report, std::map<std::string, Rows>& rows);

}  // namespace elastripe::bench
