// Which shards to read so that missing ones can be computed.
//
// A codeword that has lost e of its data blocks needs e of its parities; every square submatrix of
// the coding matrix is invertible, so any e do. In state narrow a stripe uses k of the k' nodes, so
// a missing node costs parities only in the stripes that have a block there.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "coding/codec.h"

namespace elastripe::coding {

struct DecodePlan {
  State state = State::kNarrow;
  ShardSet missing;  // cannot be read
  ShardSet wanted;   // to be computed; a subset of missing
  ShardSet read;     // must be read, and no others: disjoint from missing
};

// A plan for computing `wanted` while `missing` cannot be read. Feasible for any set of at most m
// missing shards, and for those larger ones that leave every codeword concerned enough parities.
// Fails if it cannot be done, or if wanted is not a subset of missing, or missing is not a subset
// of the segment's shards.
std::expected<DecodePlan, std::string> decode_plan(const Codec& codec, State state,
                                                   const ShardSet& missing, const ShardSet& wanted);

// The plan that computes all parities from all data: encoding is decoding the parities.
DecodePlan encode_plan(const Codec& codec, State state);

// One codeword's share of a plan: its block on shard outputs[i] is the sum over j of
// coefficients[i * inputs.size() + j] times its block on shard inputs[j].
struct CodewordSolution {
  std::vector<int> inputs;
  std::vector<int> outputs;  // empty: the plan wants nothing of this codeword
  std::vector<uint8_t> coefficients;
};

// Solves one codeword, 0 <= codeword < layout().codewords(plan.state). False if plan.read does not
// suffice. Reuses the memory of `solution`.
bool solve_codeword(const Codec& codec, const DecodePlan& plan, int codeword,
                    CodewordSolution& solution);

}  // namespace elastripe::coding
