#include <catch2/catch.hpp>

#include "tools/cli/plan.h"

namespace elastripe::cli {
namespace {

PlanReport report_of(int k, int m, int k_prime) {
  const auto report = make_plan_report(k, m, k_prime);
  INFO((report ? std::string() : report.error()));
  REQUIRE(report);
  return *report;
}

std::string error_of(int k, int m, int k_prime) {
  const auto report = make_plan_report(k, m, k_prime);
  return report ? "" : report.error();
}

// Takes seconds without optimisation.
const std::vector<Table1Row>& table1() {
  static const std::vector<Table1Row> rows = make_table1();
  return rows;
}

}  // namespace

TEST_CASE("the JSON of a plan is exactly this") {
  const char* expected = R"({"k":2,"m":1,"k_prime":3,"l":6,"stripes":3,"rows":2,"layouts":{)"
                         R"("srs":{"placement":[[0,0],[1,0],[0,1],[1,1],[0,2],[1,2]],)"
                         R"("forward":{"data_blocks":[0,1,2,3,4,5],"parity_blocks":0,)"
                         R"("blocks_read":6,"blocks_read_min":6,)"
                         R"("network":{"proxy":8,"delta":8,"hub":6}},)"
                         R"("backward":{"data_blocks":[0,1,2,3,4,5],"parity_blocks":0,)"
                         R"("blocks_read":6,"blocks_read_min":6,)"
                         R"("network":{"proxy":9,"delta":9,"hub":6}}},)"
                         R"("ers-1":{"placement":[[0,0],[0,1],[0,2],[1,0],[1,1],[1,2]],)"
                         R"("forward":{"data_blocks":[3],"parity_blocks":3,)"
                         R"("blocks_read":4,"blocks_read_min":4,)"
                         R"("network":{"proxy":6,"delta":2,"hub":1}},)"
                         R"("backward":{"data_blocks":[2,3],"parity_blocks":2,)"
                         R"("blocks_read":4,"blocks_read_min":4,)"
                         R"("network":{"proxy":7,"delta":4,"hub":2}}},)"
                         R"("ers-2":{"placement":[[0,0],[0,1],[1,1],[1,2],[0,2],[1,0]],)"
                         R"("forward":{"data_blocks":[5],"parity_blocks":3,)"
                         R"("blocks_read":4,"blocks_read_min":4,)"
                         R"("network":{"proxy":6,"delta":2,"hub":1}},)"
                         R"("backward":{"data_blocks":[4,5],"parity_blocks":2,)"
                         R"("blocks_read":4,"blocks_read_min":4,)"
                         R"("network":{"proxy":7,"delta":4,"hub":2}}}}})";
  CHECK(plan_json(report_of(2, 1, 3)).dump() == expected);
}

TEST_CASE("the JSON of a plan keeps the paper's count apart from the min rule") {
  const Json forward = plan_json(report_of(12, 3, 14))["layouts"]["ers-2"]["forward"];
  CHECK(forward["data_blocks"].size() == 10);
  CHECK(forward["parity_blocks"] == 21);
  CHECK(forward["blocks_read"] == 31);
  CHECK(forward["blocks_read_min"] == 30);
  CHECK(forward["network"] == Json({{"proxy", 49}, {"delta", 25}, {"hub", 20}}));
}

TEST_CASE("the text of a plan draws the grid and the costs") {
  const std::string text = plan_text(report_of(4, 1, 5));
  const auto shows = [&](const char* part) {
    INFO(part << "\nis not in\n" << text);
    CHECK(text.find(part) != std::string::npos);
  };
  shows("ERS(4, 1, 5): a segment is 20 data blocks on 5 nodes, in 5 stripes of 4 and 4 rows of 5");
  shows(
      "narrow  RS(4, 1): 1 parity block for each of 5 stripes; stores 1.25 bytes for a byte; "
      "survives the loss of any 1 node\n");
  shows("wide    RS(5, 1): 1 parity block for each of 4 rows; stores 1.20 bytes for a byte;");
  shows(
      "ers-2     node 0  node 1  node 2  node 3  node 4\n"
      "row 0       0 s0    1 s0    2 s0    3 s0   16 s4\n"
      "row 1      17 s4    4 s1    5 s1    6 s1    7 s1\n");
  shows("read    forward 17-19; backward 16-19\n");
  shows("read    forward 4 10-11 15; backward 4 8-11 15\n");
  shows(
      "ers-2   forward        3         5      8         8         12       6       3\n"
      "        backward       4         4      8         8         13       8       4\n");
}

TEST_CASE("the grid of a plan is aligned for any numbers") {
  for (const auto& [k, k_prime] : {std::pair{4, 8}, {12, 14}, {15, 64}, {1, 2}}) {
    const std::string text = plan_text(report_of(k, 2, k_prime));
    const size_t grid = text.find("ers-1   ");
    REQUIRE(grid != std::string::npos);
    const size_t width = text.find('\n', grid) - grid;
    const size_t row = text.find("row 0", grid);
    CHECK(text.find('\n', row) - row == width);
  }
  CHECK(plan_text(report_of(4, 2, 8)).find("in 2 stripes of 4 and 1 row of 8\n") !=
        std::string::npos);
  CHECK(plan_text(report_of(4, 2, 8)).find("read    forward none; backward 4-7\n") !=
        std::string::npos);
}

TEST_CASE("a plan of no scheme is refused with the reason") {
  CHECK(error_of(5, 1, 4) == "k is 5 and k' is 4: k must be less than k'");
  CHECK(error_of(5, 1, 5) == "k is 5 and k' is 5: k must be less than k'");
  CHECK(error_of(0, 1, 5) == "k is 0, must be 1..64");
  CHECK(error_of(-4, 1, 5) == "k is -4, must be 1..64");
  CHECK(error_of(4, 0, 5) == "m is 0, must be 1..8");
  CHECK(error_of(4, 9, 5) == "m is 9, must be 1..8");
  CHECK(error_of(4, 1, 260) == "k' is 260, must be 1..64");  // 4 as a byte
  CHECK(error_of(33, 1, 64) == "lcm(k, k') is 2112 blocks, must be at most 1024");
  CHECK(error_of(4, 1, 5).empty());
}

TEST_CASE("Table 1 of the paper comes out, but for one average") {
  const std::vector<Table1Row>& rows = table1();
  REQUIRE(rows.size() == 4);
  for (const Table1Row& row : rows) {
    INFO(row.layout << " over " << row.over);
    CHECK(row.ours.improved == row.published.improved);
    CHECK(row.ours.best == Approx(row.published.best).margin(0.0005));
    CHECK(row.ours.best_parameters == row.published.best_parameters);
    const bool differs =
        row.direction == coding::Direction::kBackward && std::string(row.over) == "srs";
    CHECK(row.ours.average == Approx(differs ? 0.346 : row.published.average).margin(0.0005));
  }
}

TEST_CASE("Table 1 is rendered with ours beside the published figures") {
  const std::vector<Table1Row>& rows = table1();
  const std::string text = table1_text(rows);
  INFO(text);
  CHECK(text.find("backward  ers-1 over srs    ours             222     34.6%   65.9%   "
                  "(13, 1, 14)\n"
                  "                            published        222     36.2%   65.9%   "
                  "(13, 1, 14)\n") != std::string::npos);
  const Json json = table1_json(rows);
  CHECK(json["sets"] == 244);
  REQUIRE(json["rows"].size() == 4);
  CHECK(json["rows"][0]["direction"] == "forward");
  CHECK(json["rows"][0]["layout"] == "ers-1");
  CHECK(json["rows"][0]["over"] == "srs");
  CHECK(json["rows"][0]["ours"]["improved"] == 221);
  CHECK(json["rows"][0]["published"]["best_parameters"] == Json({6, 1, 14}));
}

}  // namespace elastripe::cli
