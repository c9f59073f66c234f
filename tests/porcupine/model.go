package main

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// What one key holds. An item that has expired is still held: whether it is seen is up to the
// clock of the operation that looks.
type state struct {
	exists  bool
	value   string
	flags   uint32
	exptime uint64
}

var answers = map[string]bool{
	"none": true, "unknown": true, "hit": true, "cut_off": true, "miss": true, "done": true,
	"not_stored": true, "exists": true, "not_found": true, "not_number": true,
}

// What an operation that takes effect makes of an item that is there (live), or of none. False: it
// has no effect on that.
var verbs = map[string]func(r *record, before state, live bool) (state, bool){
	"get":        func(_ *record, _ state, _ bool) (state, bool) { return state{}, false },
	"transition": func(_ *record, _ state, _ bool) (state, bool) { return state{}, false },
	"rebalance":  func(_ *record, _ state, _ bool) (state, bool) { return state{}, false },
	"set":        func(r *record, _ state, _ bool) (state, bool) { return fresh(r), true },
	"add":        func(r *record, _ state, live bool) (state, bool) { return fresh(r), !live },
	"replace":    func(r *record, _ state, live bool) (state, bool) { return fresh(r), live },
	"cas": func(r *record, before state, live bool) (state, bool) {
		return fresh(r), live && before.value == r.Expected
	},
	"update": func(r *record, before state, live bool) (state, bool) {
		end := r.Offset + uint64(len(r.Value))
		if !live || end > uint64(len(before.value)) {
			return state{}, false
		}
		if r.Expected != "" && before.value != r.Expected {
			return state{}, false
		}
		before.value = before.value[:r.Offset] + r.Value + before.value[end:]
		return before, true
	},
	"append": func(r *record, before state, live bool) (state, bool) {
		before.value += r.Value
		return before, live
	},
	"prepend": func(r *record, before state, live bool) (state, bool) {
		before.value = r.Value + before.value
		return before, live
	},
	"increment": count,
	"decrement": count,
	"delete":    func(_ *record, _ state, live bool) (state, bool) { return state{}, live },
	"touch": func(r *record, before state, live bool) (state, bool) {
		before.exptime = r.Exptime
		return before, live
	},
	"flush": func(_ *record, _ state, _ bool) (state, bool) { return state{}, true },
	"lose":  func(_ *record, _ state, _ bool) (state, bool) { return state{}, true },
}

func fresh(r *record) state { return state{true, r.Value, r.Flags, r.Exptime} }

// The number that memcached reads in a value.
func numberIn(value string) (uint64, bool) {
	if len(value) > 20 {
		return 0, false
	}
	number, err := strconv.ParseUint(strings.TrimRight(value, " "), 10, 64)
	return number, err == nil
}

// A number that became shorter is padded: it changes in place.
func count(r *record, before state, live bool) (state, bool) {
	number, isNumber := numberIn(before.value)
	if !live || !isNumber {
		return state{}, false
	}
	switch {
	case r.Verb == "increment":
		number += r.Delta
	case number > r.Delta:
		number -= r.Delta
	default:
		number = 0
	}
	if r.Answer == "done" && number != r.Number {
		return state{}, false
	}
	before.value = fmt.Sprintf("%-*d", len(before.value), number)
	return before, true
}

// Can the operation have found the key as live, or as not live?
func possible(r *record, before state, live bool) bool {
	if !before.exists {
		return !live
	}
	if before.exptime == 0 {
		return live
	}
	expires := int64(before.exptime) * 1000
	if live {
		return r.CallMs < expires
	}
	return r.lastMs() >= expires
}

func reads(r *record, before state) bool {
	if before.flags != r.ReadFlags {
		return false
	}
	if !r.isPart() {
		return before.value == r.ReadValue
	}
	offset := min(r.Offset, uint64(len(before.value)))
	wanted := before.value[offset:]
	if r.Length != nil && *r.Length < len(wanted) {
		wanted = wanted[:*r.Length]
	}
	if uint64(len(before.value)) != r.ReadSize {
		return false
	}
	if r.Answer == "cut_off" {
		return strings.HasPrefix(wanted, r.ReadValue)
	}
	return wanted == r.ReadValue
}

// Whether an answer that tells that nothing was changed is true.
func explains(r *record, before state, live bool) bool {
	switch r.Answer {
	case "hit", "cut_off":
		return live && reads(r, before)
	case "miss", "not_found":
		return !live
	case "not_stored":
		if r.Verb == "update" {
			return live && r.Offset+uint64(len(r.Value)) > uint64(len(before.value))
		}
		return live == (r.Verb == "add")
	case "exists":
		return live && before.value != r.Expected
	case "not_number":
		_, isNumber := numberIn(before.value)
		return live && !isNumber
	}
	return false
}

func step(before state, r *record) (bool, state) {
	takesEffect := r.Answer == "done" || r.isUnknown()
	for _, live := range []bool{false, true} {
		if !possible(r, before, live) {
			continue
		}
		if takesEffect {
			if after, has := verbs[r.Verb](r, before, live); has {
				return true, after
			}
		} else if explains(r, before, live) {
			return true, before
		}
	}
	return r.isUnknown(), before
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return state{} },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			return step(before.(state), input.(*record))
		},
		Hash: func(s interface{}) uint64 {
			hash := fnv.New64a()
			fmt.Fprint(hash, s.(state))
			return hash.Sum64()
		},
		DescribeOperation: func(input, _ interface{}) string { return describe(input.(*record)) },
		DescribeState: func(s interface{}) string {
			if !s.(state).exists {
				return "nothing"
			}
			return short(s.(state).value)
		},
	}
}

func short(value string) string {
	if len(value) > 40 {
		return fmt.Sprintf("%q... (%d)", value[:40], len(value))
	}
	return fmt.Sprintf("%q", value)
}

func describe(r *record) string {
	text := r.Verb
	if r.Value != "" {
		text += " " + short(r.Value)
	}
	if r.Verb == "cas" {
		text += " if " + short(r.Expected)
	}
	if r.Delta != 0 {
		text += fmt.Sprintf(" by %d", r.Delta)
	}
	if r.Exptime != 0 {
		text += fmt.Sprintf(" until %d", r.Exptime)
	}
	text += " -> " + r.Answer
	switch {
	case r.Answer == "hit" || r.Answer == "cut_off":
		text += " " + short(r.ReadValue)
	case r.Answer == "done" && r.Delta != 0:
		text += fmt.Sprintf(" %d", r.Number)
	}
	return text
}
