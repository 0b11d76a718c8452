package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/durable"
)

var update = flag.Bool("update", false, "write the tables of docs/develop/performance.md")

func TestKeep(t *testing.T) {
	dir, m := filepath.Join(t.TempDir(), "results"), machine{CPU: "A CPU (family 6)"}
	for _, r := range []Row{
		{Workload: "version", Ours: 1}, {Workload: "decode_1", Peer: "llama.cpp Q4_1", Ours: 5}, {Workload: "decode_1", Peer: "llama.cpp bf16", Ours: 2},
		{Workload: "decode_1", Peer: "llama.cpp bf16", DType: "bf16", Ours: 3}, {Workload: "version", Ours: 4}, {Workload: "version", Kernels: "avx2", Ours: 6},
		{Workload: "version", Ours: 7, Machine: machine{Foreign: .06}}, {Workload: "start", Ours: 8, Machine: machine{Foreign: .5}},
		{Workload: "prefill", Ours: 9}, {Workload: "prefill", Ours: 10, Machine: machine{Foreign: .5, Commit: "newer"}},
	} {
		if err := keep(dir, m, r); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := readLines[Row](filepath.Join(dir, "a-cpu-family-6.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	for _, r := range rows {
		got = append(got, r.Ours)
	}
	if !slices.Equal(got, []float64{2, 3, 5, 10, 8, 4, 6}) {
		t.Errorf("kept %v, want 2, 3 (other storage), 5 (a later peer), 10 (disturbed, but of a newer engine), 8 (disturbed, but alone), 4 in place of 1 and not of the disturbed 7, and 6 (other kernels)", got)
	}
}

func TestKeepTimes(t *testing.T) {
	dir, m := filepath.Join(t.TempDir(), "results"), machine{CPU: "A CPU"}
	for _, line := range []timeTable{{Workload: "prefill", Value: 1}, {Workload: "decode_8", Value: 2}, {Workload: "prefill", Value: 3}} {
		line.Machine = m
		if err := keepTimes(dir, line); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := readLines[timeTable](filepath.Join(dir, "profiles", "a-cpu.json"))
	if err != nil || len(lines) != 2 || lines[0].Value != 2 || lines[1].Value != 3 {
		t.Errorf("kept %v, %v; want decode_8 of 2 and prefill of 3", lines, err)
	}
}

func TestKeepPhases(t *testing.T) {
	dir, m := filepath.Join(t.TempDir(), "results"), machine{CPU: "A CPU"}
	for _, line := range []phaseTable{
		{Workload: "decode_32", Setting: "cores", Values: [2]string{"1", "2"}, Kernels: "avx2"},
		{Workload: "decode_8", Setting: "commit", Kernels: "avx2"},
		{Workload: "decode_32", Setting: "cores", Values: [2]string{"1", "2"}, Kernels: "avx512"},
		{Workload: "decode_32", Setting: "cores", Values: [2]string{"1", "2"}, Kernels: "avx2", Steps: [2]int{7, 7}},
	} {
		line.Machine = m
		if err := keepPhases(dir, line); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := readLines[phaseTable](filepath.Join(dir, "phases", "a-cpu.json"))
	if err != nil || len(lines) != 3 || lines[0].Workload != "decode_8" || lines[1].Kernels != "avx512" || lines[2].Steps[0] != 7 {
		t.Errorf("kept %v, %v; want decode_8, then decode_32 with avx512, and with avx2 the newer of two", lines, err)
	}
}

func TestReadLinesBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.json")
	if err := os.WriteFile(path, []byte("{\"workload\":\"version\"}\n{\"workload\":"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readLines[Row](path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one that names the file", err)
	}
}

func TestReport(t *testing.T) {
	value := 2.0
	rows := []Row{
		{Workload: "decode_8", Peer: "a", Ours: 4, Theirs: &value, Ratio: &value, Unit: "tok/s", Kernels: "avx2", Runs: 1, OurRuns: samples([]float64{4}),
			TheirRuns: samples([]float64{2}), PeerVersions: "a 1, torch 2", Command: "c"},
		{Workload: "decode_8", Peer: "b", Ours: 4, Unit: "tok/s", Runs: 1, OurRuns: samples([]float64{4}), Why: "illegal | instruction", PeerVersions: "b 1, torch 2", Machine: machine{Foreign: .06}},
	}
	got := report(rows)
	for _, want := range []string{
		"Peers: a 1, torch 2, b 1.", "| decode_8 | a | 4.00 | 2.00 | 2.00× | – | tok/s | – | – | – | – | ? | 1 | avx2 | 0 % |",
		"| decode_8 | b | 4.00 | – | – | – | tok/s |", "| decode_8 | a |  |  | `c` | 4.00 | 2.00 |", `| 4.00 | illegal \| instruction |`,
		`| avx2 | 0 % |`, `| 6 % \* |`, "\n\\* Other programs took more than 5 % of the cores",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("report lacks %q:\n%s", want, got)
		}
	}
}

// TestPerformanceDocument compares the tables of docs/develop/performance.md with the kept rows and times.
func TestPerformanceDocument(t *testing.T) {
	var rows, times, phases []string
	for _, file := range files(t, "results/*.json") {
		lines, err := readLines[Row](file)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, report(lines))
	}
	for _, file := range files(t, "results/profiles/*.json") {
		lines, err := readLines[timeTable](file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range lines {
			times = append(times, lines[i].text())
		}
	}
	for _, file := range files(t, "results/phases/*.json") {
		lines, err := readLines[phaseTable](file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range lines {
			phases = append(phases, lines[i].text())
		}
	}
	const path = "../docs/develop/performance.md"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := section(t, string(data), "## Results\n\n", rows)
	want = section(t, want, "### By phase\n\n", phases)
	want = section(t, want, "### By kernel\n\n", times)
	if *update {
		if err := durable.WriteFile(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(data) != want {
		t.Errorf("%s does not say what bench/results does: go test ./bench -update writes its tables", path)
	}
}

func files(t *testing.T, pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// section replaces what stands between a heading and the next of its rank or a higher one.
func section(t *testing.T, text, heading string, tables []string) string {
	if len(tables) == 0 {
		tables = []string{"Nothing is kept in `bench/results` yet.\n"}
	}
	before, after, ok := strings.Cut(text, heading)
	end := strings.Index(after, "\n## ")
	if rank, _, _ := strings.Cut(heading, " "); strings.Contains(after[:max(end, 0)], "\n"+rank+" ") {
		end = strings.Index(after, "\n"+rank+" ")
	}
	if !ok || end < 0 {
		t.Fatalf("want a section %q with another behind it", strings.TrimSpace(heading))
	}
	return before + heading + strings.Join(tables, "\n") + after[end:]
}
