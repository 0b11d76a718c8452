package monitor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
)

// steps reads and keeps everything new, and returns it as text.
func (t *tail) steps(test *testing.T) string {
	test.Helper()
	var got []string
	for {
		records, then, err := t.next()
		if err != nil {
			test.Fatal(err)
		}
		if len(records) == 0 {
			return strings.Join(got, " ")
		}
		for _, r := range records {
			got = append(got, fmt.Sprintf("%s%d", r.Role, r.Step))
		}
		if err := t.keep(then); err != nil {
			test.Fatal(err)
		}
	}
}

func TestTailReadsEachRecordOnce(t *testing.T) {
	line := func(role string, step int, metric string) string {
		return fmt.Sprintf(`{"step":%d,"role":%q,"metrics":{%q:1}}`, step, role, metric) + "\n"
	}
	a := func(step int) string { return line("a", step, "actor/x") }
	b := func(step int) string { return line("b", step, "rollout/x") }
	eval := func(step int) string { return line("e", step, "eval/x") }
	for name, c := range map[string]struct{ first, second, want string }{
		"more":                    {a(1) + b(1), a(1) + b(1) + a(2), "a2"},
		"nothing":                 {a(1), a(1), ""},
		"half a line":             {a(1), a(1) + a(2) + `{"step":3`, "a2"},
		"lines that are none":     {a(1) + "x\n", a(1) + "x\n\n{}\n" + a(2), "0 a2"},
		"cut back":                {a(1) + b(1) + a(2) + b(2), a(1) + b(1) + b(2) + a(2) + a(3), "a3"},
		"cut back by one role":    {b(1) + a(1) + a(2) + b(2), b(1) + a(1) + b(2) + a(2) + b(3), "b3"},
		"an earlier step, no cut": {a(5), a(5) + a(4), "a4"},
		"an evaluation again":     {a(1) + eval(1) + a(2), a(1) + a(2) + eval(1) + eval(2) + a(3), "e2 a3"},
		"an evaluation afterwards": {
			a(9) + eval(9), eval(9) + a(9) + eval(5), "e5"},
		"removed":           {a(1) + a(2), "", ""},
		"removed, and more": {a(1) + a(2), a(2) + a(3), "a3"},
	} {
		dir := t.TempDir()
		write := func(text string) *tail {
			if err := os.WriteFile(filepath.Join(dir, rundir.MetricsFile), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			tl, err := openTail(dir, "x")
			if err != nil {
				t.Fatal(err)
			}
			return tl
		}
		write(c.first).steps(t)
		if got := write(c.second).steps(t); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if got := write(c.second).steps(t); got != "" {
			t.Errorf("%s: again %q", name, got)
		}
	}
}

func TestTailReadsLargeFilesInParts(t *testing.T) {
	dir := t.TempDir()
	many := trinity.Metrics{}
	for i := range 5000 {
		many[fmt.Sprintf("actor/a_metric_with_a_long_name_%d", i)] = float64(i)
	}
	all, err := os.Create(filepath.Join(dir, rundir.MetricsFile))
	if err != nil {
		t.Fatal(err)
	}
	j := &jsonl{file: all, path: all.Name(), lock: filepath.Join(dir, "lock")}
	for step := range int64(2*maxRecords + 1) {
		m := trinity.Metrics{"actor/x": 1}
		if step < 2 {
			m = many
		}
		if step == 2 {
			m = trinity.Metrics{strings.Repeat("long", maxBytes): 1}
		}
		logAll(t, j, rec("a", step, m))
	}
	tl, err := openTail(dir, "x")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(tl.steps(t)); len(got) != 2*maxRecords+1 || got[2*maxRecords] != fmt.Sprint("a", 2*maxRecords) {
		t.Errorf("%d records", len(got))
	}
	if tl.at.Records != 2*maxRecords+1 {
		t.Errorf("position %+v", tl.at)
	}
}

func TestTailSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sent_x.json")
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openTail(dir, "x"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken position: %v", err)
	}
}

// FuzzTail follows any file from any position. What is new is new once.
func FuzzTail(f *testing.F) {
	f.Add([]byte(`{"step":1,"role":"a","metrics":{}}`+"\n"), []byte(`{"records":1}`))
	f.Add([]byte("{}\n{}\nx"), []byte(`{"offset":3,"length":9,"hash":"x"}`))
	f.Add([]byte("\n"), []byte(`{"offset":-3,"length":-9}`))
	f.Fuzz(func(t *testing.T, file, position []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{rundir.MetricsFile: file, "sent_x.json": position} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		tl, err := openTail(dir, "x")
		if err != nil {
			return
		}
		tl.steps(t)
		if again := tl.steps(t); again != "" {
			t.Errorf("again %q", again)
		}
	})
}
