// Tables, charts and goals of `elastripe bench transition`, of the rows of its experiments
// (transition_cases.h); nothing of an experiment that has none.
#pragma once

#include "tools/bench/report.h"

namespace elastripe::bench {

// Layouts side by side, beside what the paper reports.
void show_layouts(Report& report, const std::string& title, const Rows& rows);
// The counts of the largest objects: what is not blocks weighs least there.
void show_wire(Report& report, const Rows& rows);
void show_small_objects(Report& report, const Rows& rows);
void show_order(Report& report, const Rows& rows);
void show_bulk(Report& report, const Rows& rows);
void show_beside(Report& report, const Rows& rows);

void chart_sizes(Report& report, const Rows& rows);
void chart_parameters(Report& report, const Rows& rows);
void chart_bandwidth(Report& report, const Rows& rows);

// The bounds of docs/transitioning.md for (12,3,14) at 4 MiB.
void add_layout_goals(Report& report, const Rows& rows);

}  // namespace elastripe::bench
