// Command times reads the events of `go test -json`, prints what `go test` prints, and writes the seconds of each
// package and of its ten slowest tests into a file. Of a failed test it prints only the subtests that failed.
// It fails if a package has failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// event is a line of `go test -json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds, of an action pass or fail
}

const (
	mostTests = 10
	mostLines = 30  // of a failed test that are repeated
	least     = 0.5 // seconds of a test that is worth a line
)

func main() {
	failed, err := run(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "times:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

func run(path string) (failed bool, err error) {
	said, slow := map[string]string{}, map[string][]event{} // what a test or subtest has printed, by package and name; results by package
	var failures []string
	in := bufio.NewReader(os.Stdin)
	for {
		line, readErr := in.ReadString('\n')
		var e event
		if line != "" && json.Unmarshal([]byte(line), &e) != nil {
			fmt.Print(line) // of the go command itself
		}
		key := e.Package + " " + e.Test
		switch {
		case e.Action == "build-output", e.Action == "output" && e.Test == "" && e.Output != "PASS\n":
			fmt.Print(e.Output)
		case e.Action == "build-fail":
			failed = true
		case e.Action == "output":
			said[key] += e.Output
		case e.Action == "fail" && !strings.Contains(e.Test, "/"): // of a package: a test that ended the process has no event of its own
			failed = true
			for _, test := range slices.Sorted(maps.Keys(said)) {
				if test == key || strings.HasPrefix(test, key+"/") || e.Test == "" && strings.HasPrefix(test, key) {
					fmt.Print(said[test])
					failures = append(failures, fmt.Sprintf("--- %s\n%s", test, lastLines(said[test])))
					delete(said, test)
				}
			}
		}
		if e.Action == "pass" || e.Action == "skip" {
			delete(said, key)
		}
		if (e.Action == "pass" || e.Action == "fail") && !strings.Contains(e.Test, "/") {
			slow[e.Package] = append(slow[e.Package], e)
		}
		if readErr != nil {
			break
		}
	}
	if failures != nil { // again, where a reader of the end sees them
		fmt.Printf("what failed:\n%s", strings.Join(failures, ""))
	}
	var table strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(slow)) {
		tests := slow[pkg]
		slices.SortFunc(tests, func(a, b event) int {
			return cmp.Or(cmp.Compare(b.Elapsed, a.Elapsed), strings.Compare(a.Test, b.Test))
		})
		for i, e := range tests {
			if i <= mostTests && e.Elapsed >= least {
				fmt.Fprintf(&table, "%7.1f %s %s\n", e.Elapsed, pkg, e.Test)
			}
		}
	}
	return failed, os.WriteFile(path, []byte(table.String()), 0o644)
}

// lastLines returns the end of a text, where the reason of a failure stands.
func lastLines(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-mostLines):], "")
}
