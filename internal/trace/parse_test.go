package trace

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// The fast reader of spans reads what the decoder of JSON reads, whatever the span before it was.
func FuzzParseSpan(f *testing.F) {
	for _, s := range []Span{
		{}, {Role: "trainer", Kind: "wait", For: "explorer", Step: 3, Begin: -1, End: 2},
		{Role: "explorer a", Kind: "rollout", Name: "<é\"\\\u2028>", ID: "1/a b/0/0", Version: 1 << 60, Begin: 5, End: 1},
	} {
		line, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(line, '\n'))
	}
	f.Add([]byte(`{"role":"x","end":1.5}` + "\n"))
	f.Add([]byte(`{"role":"a","kind":"b","begin":01,"end":-}` + "\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		var want Span
		wantErr := json.Unmarshal(line, &want)
		want.End = max(want.Begin, want.End)
		got := Span{Role: "trainer", Kind: "wait", Name: "n", For: "f", Step: 1, Version: 2, ID: "i", Begin: 3, End: 4}
		if err := parseSpan(line, &got); wantErr == nil && (err != nil || got != want) {
			t.Errorf("%q: %+v, %v, want %+v", line, got, err, want)
		}
	})
}

// Whoever reads spans sees none that ends before it begins, because a clock may have been set, and reads
// those of a later version, which have other kinds and more keys.
func TestSpansOfOtherClocksAndLaterVersions(t *testing.T) {
	dir := t.TempDir()
	w, _ := open(t, Options{Dir: dir, Spans: true})
	closed(t, w)
	l := lines{dir: dir, prefix: spansPrefix, process: 1}
	for _, line := range []any{
		Span{Role: "trainer", Kind: "forward", Step: 1, Begin: 9, End: 2},
		map[string]any{"role": "trainer", "kind": "thought", "step": 1, "begin": 9, "end": 3, "energy": map[string]int{"joules": 5}},
	} {
		if err := l.add(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	want := []Span{
		{Role: "trainer", Kind: "forward", Step: 1, Begin: 9, End: 9}, {Role: "trainer", Kind: "thought", Step: 1, Begin: 9, End: 9},
	}
	all, err := ReadSpans(dir)
	part, partErr := NextSpans(dir, nil)
	var table Table
	update(t, dir, &table)
	for i, got := range [][]Span{all, part.Lines, expanded(&table)} {
		if !slices.Equal(got, want) {
			t.Errorf("reader %d: %+v\n%v", i, got, fmt.Sprint(err, partErr))
		}
	}
}
