package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"

	"github.com/anishathalye/porcupine"
)

// A record is one line of a history: what a client asked and what it was told. `elastripe-simulate
// --histories` and `scripts/soak --history` write them.
type record struct {
	Client int    `json:"client"`
	Key    string `json:"key"` // empty: a flush, which is of all keys
	Verb   string `json:"verb"`

	// The request.
	Value    string `json:"value"`
	Flags    uint32 `json:"flags"`
	Exptime  uint64 `json:"exptime"`  // unix seconds; 0: never
	Delta    uint64 `json:"delta"`    // increment, decrement
	Expected string `json:"expected"` // cas: the value that was read together with the cas unique
	Offset   uint64 `json:"offset"`   // get: a range; update
	Length   *int   `json:"length"`

	// The answer. "unknown": the operation may take effect at any time since, or never.
	Answer    string `json:"answer"`
	ReadValue string `json:"read_value"`
	ReadFlags uint32 `json:"read_flags"`
	ReadSize  uint64 `json:"read_size"` // of the whole value, where a part was read
	Number    uint64 `json:"number"`    // of a counter

	// When: in the order of all calls and returns, and by wall clocks, which expiry goes by.
	Call     int64  `json:"call"`
	Return   *int64 `json:"return"` // absent: the outcome is unknown
	CallMs   int64  `json:"call_ms"`
	ReturnMs *int64 `json:"return_ms"`
}

func (r *record) isUnknown() bool { return r.Answer == "unknown" }

func (r *record) isPart() bool {
	return r.Answer == "cut_off" || (r.Verb == "get" && r.Offset != 0) || r.Length != nil
}

// Whether it tells or changes nothing, so that no order has to explain it.
func (r *record) isSilent() bool {
	isOperators := r.Verb == "transition" || r.Verb == "rebalance"
	return r.Answer == "none" || isOperators || (r.Verb == "get" && r.isUnknown())
}

func readHistory(from io.Reader) ([]*record, error) {
	var records []*record
	lines := bufio.NewReader(from)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return records, nil
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		r := &record{}
		if err := json.Unmarshal(line, r); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if _, known := verbs[r.Verb]; !known {
			return nil, fmt.Errorf("line %d: unknown verb %q", number, r.Verb)
		}
		if !answers[r.Answer] {
			return nil, fmt.Errorf("line %d: unknown answer %q", number, r.Answer)
		}
		if !r.isUnknown() && !r.isSilent() && r.Return == nil {
			return nil, fmt.Errorf("line %d: answered, and never returned", number)
		}
		records = append(records, r)
	}
}

// What Porcupine is asked about one key. Flushes are of each key.
type keyHistory struct {
	key        string
	operations []porcupine.Operation
}

func byKey(records []*record) []keyHistory {
	last := int64(0)
	of := map[string][]*record{}
	for _, r := range records {
		last = max(last, r.Call)
		if r.Return != nil {
			last = max(last, *r.Return)
		}
		if _, known := of[r.Key]; !known && r.Verb != "flush" {
			of[r.Key] = nil
		}
	}
	for _, r := range records {
		switch {
		case r.isSilent():
		case r.Verb == "flush":
			for key := range of {
				of[key] = append(of[key], r)
			}
		default:
			of[r.Key] = append(of[r.Key], r)
		}
	}
	var histories []keyHistory
	for key, all := range of {
		histories = append(histories, keyHistory{key, operations(all, last)})
	}
	sort.Slice(histories, func(i, j int) bool { return histories[i].key < histories[j].key })
	return histories
}

// An operation of unknown outcome may take effect until the end, after which nobody looks. One that
// never did is as one that did then. Its client goes on meanwhile: so each has a row of its own in
// the picture.
func operations(records []*record, last int64) []porcupine.Operation {
	rows := map[int]int{}
	var all []porcupine.Operation
	for _, r := range records {
		if _, known := rows[r.Client]; !known && !r.isUnknown() {
			rows[r.Client] = len(rows)
		}
	}
	unknown := 0
	for _, r := range records {
		op := porcupine.Operation{Input: r, Output: r, Call: r.Call}
		if r.isUnknown() {
			op.ClientId = len(rows) + unknown
			op.Return = last + 1
			unknown++
		} else {
			op.ClientId = rows[r.Client]
			op.Return = *r.Return
		}
		all = append(all, op)
	}
	return all
}

// The latest wall clock by which the operation may have found something expired.
func (r *record) lastMs() int64 {
	if r.isUnknown() || r.ReturnMs == nil {
		return math.MaxInt64
	}
	return *r.ReturnMs
}
