// Porcupine's opinion on histories of clients: is there, for each key, one order of its operations
// that explains all answers? scripts/porcupine makes the histories; model.go says what a key is.
package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
)

type totals struct {
	histories, keys, operations, unknown, refused, undecided int
}

func main() {
	pictures := flag.String("pictures", "", "a directory for an HTML page of each key that is refused")
	timeout := flag.Duration("timeout", time.Minute, "for each key; it is undecided then")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: porcupine [options] FILE|DIRECTORY...\n"+
			"Checks histories; of a directory all its *.jsonl.\n"+
			"Exit status: 1 if a history is not linearizable, 3 if the search in one was given up.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	var all totals
	paths, err := files(flag.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "porcupine: %v\n", err)
		os.Exit(2)
	}
	for _, path := range paths {
		if err := checkFile(path, *timeout, *pictures, &all); err != nil {
			fmt.Fprintf(os.Stderr, "porcupine: %s: %v\n", path, err)
			os.Exit(2)
		}
	}
	fmt.Printf("histories %d  keys %d  operations %d  of unknown outcome %d  not linearizable %d  "+
		"undecided %d\n", all.histories, all.keys, all.operations, all.unknown, all.refused,
		all.undecided)
	switch {
	case all.refused > 0:
		os.Exit(1)
	case all.undecided > 0:
		os.Exit(3)
	}
}

func files(arguments []string) ([]string, error) {
	var all []string
	for _, argument := range arguments {
		info, err := os.Stat(argument)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			all = append(all, argument)
			continue
		}
		found, err := filepath.Glob(filepath.Join(argument, "*.jsonl"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s has no *.jsonl", argument)
		}
		all = append(all, found...)
	}
	return all, nil
}

func checkFile(path string, timeout time.Duration, pictures string, all *totals) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	records, err := readHistory(file)
	if err != nil {
		return err
	}
	all.histories++
	for _, history := range byKey(records) {
		all.keys++
		all.operations += len(history.operations)
		for _, op := range history.operations {
			if op.Input.(*record).isUnknown() {
				all.unknown++
			}
		}
		switch porcupine.CheckOperationsTimeout(model(), history.operations, timeout) {
		case porcupine.Illegal:
			all.refused++
			fmt.Printf("%s: %s: not linearizable: %s\n", path, history.key, explain(history, timeout))
			if pictures != "" {
				if err := draw(path, history, timeout, pictures); err != nil {
					return err
				}
			}
		case porcupine.Unknown:
			all.undecided++
			fmt.Printf("%s: %s: undecided\n", path, history.key)
		}
	}
	return nil
}

// How far the longest order that explains a beginning gets, and what it does not explain.
func explain(history keyHistory, timeout time.Duration) string {
	_, info := porcupine.CheckOperationsVerbose(model(), history.operations, timeout)
	var longest []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	explained := map[*record]bool{}
	for _, op := range longest {
		explained[op.Input.(*record)] = true
	}
	var first *porcupine.Operation
	for i, op := range history.operations {
		if !explained[op.Input.(*record)] && (first == nil || op.Return < first.Return) {
			first = &history.operations[i]
		}
	}
	if first == nil {
		return "no order at all"
	}
	r := first.Input.(*record)
	return fmt.Sprintf("%d of %d operations have an order, in which there is no place for client %d: %s",
		len(longest), len(history.operations), r.Client, describe(r))
}

func draw(path string, history keyHistory, timeout time.Duration, directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	_, info := porcupine.CheckOperationsVerbose(model(), history.operations, timeout)
	page := filepath.Join(directory,
		fmt.Sprintf("%s.%s.html", filepath.Base(path), url.PathEscape(history.key)))
	fmt.Printf("  %s\n", page)
	return porcupine.VisualizePath(model(), info, page)
}
