package rundir

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// line is a record as the jsonl monitor writes it.
func line(step int, role string, metrics string) string {
	at := time.Unix(1e9+int64(step), 0).UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return fmt.Sprintf(`{"step":%d,"role":%q,"time":%q,"metrics":{%s}}`+"\n", step, role, at, metrics)
}

// The fast reader finds in a line what the jsonl monitor's own finds.
func FuzzScan(f *testing.F) {
	for _, text := range []string{
		line(1, "trainer", `"a":1,"b":"NaN"`), line(2, "explorer", ``), line(3, "explorer", `"q\"":1e300`), "{}", "", "{\"step\":1}\n",
		`{"step":1,"role":"r","time":"2001-09-09T01:46:46.000Z","metrics":{"x":1},"samples":[{"prompt":"\"x\":2}"}]}` + "\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, wantErr := Parse(text)
		h, pairs, err := Scan(text, nil)
		if wantErr != nil {
			return // a line that is no JSON may pass
		}
		if err != nil || h.Step != want.Step || string(h.Role) != want.Role || !want.Time.IsZero() && h.Time != want.Time.UnixMilli() {
			t.Fatalf("%q: %+v, %v, want %+v", text, h, err, want)
		}
		found := map[string]float64{}
		for _, p := range pairs {
			v, ok := ValueOf(p.Value)
			if !ok {
				t.Fatalf("%q: %q is %q", text, p.Name, p.Value)
			}
			found[string(p.Name)] = v
		}
		if !maps.EqualFunc(found, want.Metrics, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }) {
			t.Fatalf("%q: %v, want %v", text, found, want.Metrics)
		}
		c := NewFile("", nil)
		c.pairs = pairs
		c.learn(func(string) bool { return true })
		h, ok := c.quick(text, c.values)
		if !ok {
			return // the names of a line that is written otherwise are read as above
		}
		c.append(0)
		for id, column := range c.values {
			want, ok := want.Metrics[c.names[id]]
			if n := len(column.Values); ok != (n == 1) || ok && column.Values[0] != want && !math.IsNaN(want) {
				t.Fatalf("%q: %s is %v, want %v", text, c.names[id], column.Values, want)
			}
		}
		if h.Step != want.Step || string(h.Role) != want.Role {
			t.Fatalf("%q: %+v, want %+v", text, h, want)
		}
	})
}

// However a file grows, what is read piece by piece is what is read at once.
func FuzzColumns(f *testing.F) {
	f.Add([]byte(line(1, "trainer", `"a":1`)+line(2, "trainer", `"a":2,"b":3`)), uint(20))
	f.Add([]byte("x\n\n{}\n"+line(3, "t", `"a":"NaN"`)+"half"), uint(3))
	f.Fuzz(func(t *testing.T, text []byte, at uint) {
		dir := t.TempDir()
		path := filepath.Join(dir, MetricsFile)
		whole, parts := NewFile(dir, nil), NewFile(dir, nil)
		for _, n := range []int{int(at % uint(len(text)+1)), len(text)} {
			if err := os.WriteFile(path, text[:n], 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := parts.Update(isA, Mark{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := whole.Update(nil, Mark{}); err != nil {
			t.Fatal(err)
		}
		if _, err := whole.Update(isA, Mark{}); err != nil {
			t.Fatal(err)
		}
		p, q := whole.Table(), parts.Table()
		if !slices.Equal(p.Steps, q.Steps) || !slices.Equal(p.Times, q.Times) || whole.pos.At != parts.pos.At || whole.bad != parts.bad ||
			whole.firstBad != parts.firstBad || whole.pos.At.Offset != int64(bytes.LastIndexByte(text, '\n')+1) {
			t.Fatalf("at once %+v, in parts %+v", whole, parts)
		}
		if !same(p.Column("a"), q.Column("a")) {
			t.Errorf("at once %v, in parts %v", p.Column("a"), q.Column("a"))
		}
	})
}

func isA(name string) bool { return name == "a" }

func same(a, b Column) bool {
	return slices.Equal(a.Records, b.Records) &&
		slices.EqualFunc(a.Values, b.Values, func(v, w float64) bool { return v == w || math.IsNaN(v) && math.IsNaN(w) })
}
