package examples

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what was measured: results.json and the tables made of it")

// results is the file results.json of an example: what its tables show, and the commit that was
// measured. A name of Values is a run and a quantity, such as "seed 0 greedy". Machine holds seconds
// and GiB, which differ from machine to machine, so that no test compares them.
type results struct {
	Commit  string               `json:"commit"`
	Values  map[string][]float64 `json:"values"`
	Machine map[string][]float64 `json:"machine,omitempty"`
	Recipe  *recipe              `json:"recipe,omitempty"`
}

// tables returns the tables of a page by their marks.
type tables func(results) map[string]string

// pages are the documents whose tables come from the results of an example.
var pages = []struct {
	results, page string
	tables        tables
}{
	{"examples/quickstart", "examples/quickstart/README.md", quickstartTables},
	{"examples/quickstart", "README.md", quickstartRow},
	{"examples/quickstart", "docs/guide/rollouts.md", quantizedTable},
	{"examples/quickstart", "docs/develop/algorithm.md", ownAlgorithmTable},
	{"examples/algorithms", "examples/algorithms/README.md", algorithmTables},
	{"examples/grpo_arithmetic_smollm2", "examples/grpo_arithmetic_smollm2/README.md", arithmeticTables},
	{"examples/grpo_arithmetic_smollm2", "README.md", arithmeticRow},
	{"examples/grpo_json_smollm2", "examples/grpo_json_smollm2/README.md", jsonTable},
	{"examples/grpo_json_smollm2", "README.md", jsonRow},
	{"examples/grpo_gsm8k_smollm2", "examples/grpo_gsm8k_smollm2/README.md", gsm8kTable},
	{"examples/grpo_gsm8k_smollm2", "README.md", gsm8kRow},
	{"examples/algorithms_smollm2", "docs/reference/algorithms.md", smolLM2Table},
	{"examples/support", "examples/support/README.md", supportTable},
	{"examples/support/init", "docs/guide/own-data.md", ownDataTable},
	{"examples/sweep", "examples/sweep/README.md", sweepTable},
	{"examples/number_guess", "examples/number_guess/README.md", numberGuessTable},
	{"examples/frozen_lake", "examples/frozen_lake/README.md", frozenLakeTable},
	{"examples/code_reward", "examples/code_reward/README.md", codeTable},
	{"examples/exec_openai", "examples/exec_openai/README.md", agentTable},
	{"examples/agent_sdks", "examples/agent_sdks/README.md", sdkTable},
	{"examples/calculator_smollm2", "examples/calculator_smollm2/README.md", calculatorTable},
	{"examples/calculator_smollm2/hermes", "examples/calculator_smollm2/README.md", hermesTable},
}

// The tables show what results.json says. The heavy tests compare results.json with runs.
func TestTablesShowResults(t *testing.T) {
	t.Chdir("..")
	for _, p := range pages {
		text, err := os.ReadFile(p.page)
		if err != nil {
			t.Fatal(err)
		}
		if want := withTables(t, string(text), p.tables(readResults(t, p.results))); want != string(text) {
			if *update {
				writeTables(t, p.page, p.tables(readResults(t, p.results)))
				continue
			}
			t.Errorf("%s does not show %s/results.json: go test ./examples -run TablesShowResults -update writes it", p.page, p.results)
		}
	}
}

func readResults(t *testing.T, dir string) (r results) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hold compares what was measured with the results of an example. With -update it writes them, and
// the pages that show them.
func hold(t *testing.T, dir string, r results) {
	t.Helper()
	if !*update {
		agree(t, dir, readResults(t, dir).Values, r.Values)
		return
	}
	if t.Failed() {
		return
	}
	r.Commit, r.Recipe = commit(t), readResults(t, dir).Recipe
	writeResults(t, dir, r)
	for _, p := range pages {
		if p.results == dir {
			writeTables(t, p.page, p.tables(r))
		}
	}
}

func writeResults(t *testing.T, dir string, r results) {
	t.Helper()
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// agree compares measured values with those of the same names in the results of an example.
func agree(t *testing.T, dir string, names, values map[string][]float64) {
	t.Helper()
	want := readResults(t, dir)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if got, published := shares(values[name]), shares(want.Values[name]); got != published {
			t.Errorf("%s: %s, and %s/results.json has %s of commit %s: measure anew with TRINITY_HEAVY=1 go test ./examples -run Results -update",
				name, got, dir, published, want.Commit)
		}
	}
}

// publishes compares the values of a short test with the results of an example, unless -update measures these anew.
func publishes(t *testing.T, dir string, values map[string][]float64) {
	t.Helper()
	if !*update {
		agree(t, dir, values, values)
	}
}

// commit returns the commit that is checked out.
func commit(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func measuredAt(commit string) string { return "\nMeasured at commit `" + commit + "`.\n\n" }

// writeTables puts tables in place of those between the marks of their names in a document.
func writeTables(t *testing.T, path string, named map[string]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(withTables(t, string(text), named)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func withTables(t *testing.T, text string, named map[string]string) string {
	t.Helper()
	for name, table := range named {
		begin, end := "<!-- "+name+" -->", "<!-- end -->"
		head, rest, found := strings.Cut(text, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("no place for a table: %q and %q", begin, end)
		}
		text = head + begin + table + end + tail
	}
	return text
}

// head writes the first two lines of a table.
func head(columns ...string) string {
	return "| " + strings.Join(columns, " | ") + " |\n|" + strings.Repeat("---|", len(columns)) + "\n"
}

// cells writes shares as the cells of a row.
func cells(v []float64) string { return strings.ReplaceAll(shares(v), " ", " | ") }

// numbers are the column heads 1 to n.
func numbers(n int) (columns []string) {
	for i := range n {
		columns = append(columns, fmt.Sprint(i+1))
	}
	return columns
}

// share writes 0.973 as .97.
func share(v float64) string { return strings.TrimPrefix(fmt.Sprintf("%.2f", v), "0") }

func shares(values []float64) string {
	var out []string
	for _, v := range values {
		out = append(out, share(v))
	}
	return strings.Join(out, " ")
}

// tens are the means of ten values each.
func tens(values []float64) (out []float64) {
	for ten := range slices.Chunk(values, 10) {
		out = append(out, mean(ten))
	}
	return out
}
