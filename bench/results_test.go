package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/durable"
)

var update = flag.Bool("update", false, "write the tables of docs/performance.md")

func TestKeep(t *testing.T) {
	dir, m := filepath.Join(t.TempDir(), "results"), machine{CPU: "A CPU (family 6)", Date: "2026-01-02"}
	for _, r := range []Row{{Workload: "version", Ours: 1}, {Workload: "decode_1", Ours: 2}, {Workload: "decode_1", DType: "bf16", Ours: 3},
		{Workload: "decode_1", Kernels: "avx2", Ours: 5}, {Workload: "version", Ours: 4}} {
		if err := keep(dir, m, r); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := readRows(filepath.Join(dir, "2026-01-02-a-cpu-family-6.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	for _, r := range rows {
		got = append(got, r.Ours)
	}
	if !slices.Equal(got, []float64{2, 3, 5, 4}) {
		t.Errorf("kept %v, want 2, 3 (the same workload with other storage), 5 (with forced kernels) and 4 in place of 1", got)
	}
}

// TestPerformanceDocument compares the tables of docs/performance.md with the kept rows, newest day first.
func TestPerformanceDocument(t *testing.T) {
	files, err := filepath.Glob("results/*.json")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	slices.Reverse(files)
	var tables []string
	for _, file := range files {
		rows, err := readRows(file)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, report(rows))
	}
	if len(tables) == 0 {
		tables = []string{"Nothing is kept in `bench/results` yet.\n"}
	}
	const path, heading = "../docs/performance.md", "## Results\n\n"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(data), heading)
	end := strings.Index(after, "\n## ")
	if !ok || end < 0 {
		t.Fatalf("%s: want a section %q with another behind it", path, strings.TrimSpace(heading))
	}
	want := before + heading + strings.Join(tables, "\n") + after[end:]
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
