package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

const limit = time.Minute

func check(t *testing.T, lines ...string) porcupine.CheckResult {
	t.Helper()
	records, err := readHistory(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	result := porcupine.Ok
	for _, history := range byKey(records) {
		if one := porcupine.CheckOperationsTimeout(model(), history.operations, limit); one != porcupine.Ok {
			result = one
		}
	}
	return result
}

func TestHistories(t *testing.T) {
	const (
		setA  = `{"client":1,"key":"k","verb":"set","value":"a","answer":"done","call":1,"return":2}`
		setB  = `{"client":1,"key":"k","verb":"set","value":"b","answer":"done","call":3,"return":4}`
		mayB  = `{"client":1,"key":"k","verb":"set","value":"b","answer":"unknown","call":3}`
		getA5 = `{"client":2,"key":"k","verb":"get","answer":"hit","read_value":"a","call":5,"return":6}`
		getB5 = `{"client":2,"key":"k","verb":"get","answer":"hit","read_value":"b","call":5,"return":6}`
		getA7 = `{"client":2,"key":"k","verb":"get","answer":"hit","read_value":"a","call":7,"return":8}`
		getB7 = `{"client":2,"key":"k","verb":"get","answer":"hit","read_value":"b","call":7,"return":8}`
		miss7 = `{"client":2,"key":"k","verb":"get","answer":"miss","call":7,"return":8}`
		one   = `{"client":1,"key":"k","verb":"set","value":"10","answer":"done","call":1,"return":2}`
	)
	for _, test := range []struct {
		name  string
		want  porcupine.CheckResult
		lines []string
	}{
		{"the last value is read", porcupine.Ok, []string{setA, setB, getB5}},
		{"a stale read", porcupine.Illegal, []string{setA, setB, getA5}},
		{"a lost write", porcupine.Illegal, []string{setA, setB, miss7}},
		{"a value that nobody wrote", porcupine.Illegal, []string{setA, getB5}},
		{"an unknown write may have happened", porcupine.Ok, []string{setA, mayB, getB5}},
		{"or not", porcupine.Ok, []string{setA, mayB, getA5}},
		{"or happen later", porcupine.Ok, []string{setA, mayB, getA5, getB7}},
		{"but not be undone", porcupine.Illegal, []string{setA, mayB, getB5, getA7}},
		{"what was not done is not there", porcupine.Illegal, []string{setA,
			strings.Replace(setB, "done", "none", 1), getB5}},
		{"another key", porcupine.Ok, []string{setA, strings.Replace(setB, `"k"`, `"other"`, 1), getA5}},
		{"a read beside a write sees either", porcupine.Ok, []string{setA,
			strings.Replace(setB, `"return":4`, `"return":9`, 1), getA5, getB7}},
		{"but not the new one and then the old", porcupine.Illegal, []string{setA,
			strings.Replace(setB, `"return":4`, `"return":9`, 1), getB5, getA7}},
		{"add to what is there", porcupine.Illegal, []string{setA,
			`{"key":"k","verb":"add","value":"c","answer":"done","call":3,"return":4}`}},
		{"add is refused", porcupine.Ok, []string{setA,
			`{"key":"k","verb":"add","value":"c","answer":"not_stored","call":3,"return":4}`, getA5}},
		{"append and prepend", porcupine.Ok, []string{setA,
			`{"key":"k","verb":"append","value":"c","answer":"done","call":3,"return":4}`,
			`{"key":"k","verb":"prepend","value":"d","answer":"done","call":5,"return":6}`,
			`{"key":"k","verb":"get","answer":"hit","read_value":"dac","call":7,"return":8}`}},
		{"an append that came twice", porcupine.Illegal, []string{setA,
			`{"key":"k","verb":"append","value":"c","answer":"done","call":3,"return":4}`,
			`{"key":"k","verb":"get","answer":"hit","read_value":"acc","call":7,"return":8}`}},
		{"an unknown append comes once", porcupine.Illegal, []string{setA,
			`{"key":"k","verb":"append","value":"c","answer":"unknown","call":3}`,
			`{"key":"k","verb":"get","answer":"hit","read_value":"acc","call":7,"return":8}`}},
		{"cas", porcupine.Ok, []string{setA,
			`{"key":"k","verb":"cas","expected":"a","value":"b","answer":"done","call":3,"return":4}`, getB5}},
		{"two that were told that they won", porcupine.Illegal, []string{setA,
			`{"client":3,"key":"k","verb":"cas","expected":"a","value":"b","answer":"done","call":3,"return":9}`,
			`{"client":4,"key":"k","verb":"cas","expected":"a","value":"c","answer":"done","call":3,"return":9}`}},
		{"cas that lost", porcupine.Ok, []string{setA, setB,
			`{"key":"k","verb":"cas","expected":"a","value":"c","answer":"exists","call":5,"return":6}`, getB7}},
		{"counters change in place", porcupine.Ok, []string{one,
			`{"key":"k","verb":"decrement","delta":3,"number":7,"answer":"done","call":3,"return":4}`,
			`{"key":"k","verb":"get","answer":"hit","read_value":"7 ","call":5,"return":6}`,
			`{"key":"k","verb":"increment","delta":5,"number":12,"answer":"done","call":7,"return":8}`}},
		{"a count that was made twice", porcupine.Illegal, []string{one,
			`{"key":"k","verb":"increment","delta":5,"number":20,"answer":"done","call":3,"return":4}`}},
		{"no number", porcupine.Ok, []string{setA,
			`{"key":"k","verb":"increment","delta":5,"answer":"not_number","call":3,"return":4}`, getA5}},
		{"deleted", porcupine.Ok, []string{setA,
			`{"key":"k","verb":"delete","answer":"done","call":3,"return":4}`, miss7}},
		{"deleted, and there again", porcupine.Illegal, []string{setA,
			`{"key":"k","verb":"delete","answer":"done","call":3,"return":4}`, getA5}},
		{"nothing to delete", porcupine.Illegal, []string{setA,
			`{"key":"k","verb":"delete","answer":"not_found","call":3,"return":4}`}},
		{"flushed", porcupine.Ok, []string{setA, `{"verb":"flush","answer":"done","call":3,"return":4}`, miss7}},
		{"flushed, and there again", porcupine.Illegal, []string{setA,
			`{"verb":"flush","answer":"done","call":3,"return":4}`, getA5}},
		{"expired", porcupine.Ok, []string{
			`{"key":"k","verb":"set","value":"a","exptime":10,"answer":"done","call":1,"return":2}`,
			`{"key":"k","verb":"get","answer":"miss","call":3,"return":4,"call_ms":9500,"return_ms":10000}`}},
		{"a miss too early", porcupine.Illegal, []string{
			`{"key":"k","verb":"set","value":"a","exptime":10,"answer":"done","call":1,"return":2}`,
			`{"key":"k","verb":"get","answer":"miss","call":3,"return":4,"call_ms":9500,"return_ms":9999}`}},
		{"a hit too late", porcupine.Illegal, []string{
			`{"key":"k","verb":"set","value":"a","exptime":10,"answer":"done","call":1,"return":2}`,
			`{"key":"k","verb":"get","answer":"hit","read_value":"a","call":3,"return":4,` +
				`"call_ms":10000,"return_ms":10001}`}},
		{"touched in time", porcupine.Ok, []string{
			`{"key":"k","verb":"set","value":"a","exptime":10,"answer":"done","call":1,"return":2}`,
			`{"key":"k","verb":"touch","answer":"done","call":3,"return":4,"call_ms":9500,"return_ms":9501}`,
			`{"key":"k","verb":"get","answer":"hit","read_value":"a","call":5,"return":6,` +
				`"call_ms":20000,"return_ms":20001}`}},
		{"a range of a value", porcupine.Ok, []string{
			`{"key":"k","verb":"set","value":"abcdef","answer":"done","call":1,"return":2}`,
			`{"key":"k","verb":"get","offset":2,"length":3,"answer":"hit","read_value":"cde","read_size":6,` +
				`"call":3,"return":4}`,
			`{"key":"k","verb":"get","answer":"cut_off","read_value":"abc","read_size":6,"call":5,"return":6}`}},
		{"other bytes before it broke off", porcupine.Illegal, []string{
			`{"key":"k","verb":"set","value":"abcdef","answer":"done","call":1,"return":2}`,
			`{"key":"k","verb":"get","answer":"cut_off","read_value":"abd","read_size":6,"call":5,"return":6}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := check(t, test.lines...); got != test.want {
				t.Errorf("%s, not %s:\n%s", got, test.want, strings.Join(test.lines, "\n"))
			}
		})
	}
}

func TestWhatIsNoHistoryIsRefused(t *testing.T) {
	for _, line := range []string{
		`{"key":"k","verb":"get","answer":"hit","call":1`,
		`{"key":"k","verb":"eat","answer":"done","call":1,"return":2}`,
		`{"key":"k","verb":"set","answer":"perhaps","call":1,"return":2}`,
		`{"key":"k","verb":"set","answer":"done","call":1}`,
	} {
		if _, err := readHistory(strings.NewReader(line)); err == nil {
			t.Errorf("taken: %s", line)
		}
	}
}

func TestAFileThatIsRefusedIsToldAndDrawn(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "history.jsonl")
	lines := `{"client":1,"key":"a/b","verb":"set","value":"a","answer":"done","call":1,"return":2}
{"client":2,"key":"a/b","verb":"set","value":"c","answer":"unknown","call":2}
{"client":3,"key":"a/b","verb":"get","answer":"miss","call":3,"return":4}
`
	if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	var all totals
	if err := checkFile(path, limit, directory, &all); err != nil {
		t.Fatal(err)
	}
	if (all != totals{histories: 1, keys: 1, operations: 3, unknown: 1, refused: 1}) {
		t.Errorf("%+v", all)
	}
	if _, err := os.Stat(filepath.Join(directory, "history.jsonl.a%2Fb.html")); err != nil {
		t.Error(err)
	}
}
