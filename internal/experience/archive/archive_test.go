package archive

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/experience"
)

func ofStep(step int64, n int) []trinity.Group {
	var g trinity.Group
	for run := range n {
		g = append(g, &trinity.Experience{
			ID: trinity.ExperienceID{Step: step, Task: "t<1>", Run: run}, Tokens: []int32{1, 2000}, Mask: []bool{false, true},
			Logprobs:  []float32{0, -0.1},
			PromptLen: 1, Reward: trinity.NewReward(map[string]float64{"a": 0.5}), Versions: [2]int64{3, 4}, Prompt: "p",
			Response: "é\n" + strings.Repeat("r", run),
		})
	}
	return []trinity.Group{g}
}

// written lists step and run of each experience.
func written(t *testing.T, path string) string {
	t.Helper()
	var out []string
	for _, e := range readAll(t, path) {
		out = append(out, fmt.Sprintf("%d.%d", e.ID.Step, e.ID.Run))
	}
	return strings.Join(out, " ")
}

// readAll reads an archive with the programs that people have: gzip, zstd, a reader of Parquet, a
// query.
func readAll(t *testing.T, path string) (exps []*trinity.Experience) {
	t.Helper()
	if dburl.IsURL(path) {
		return readRows(t, path)
	}
	steps, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range steps {
		if strings.HasPrefix(filepath.Base(file), ".") {
			continue
		}
		if experience.Form(path) == ".parquet" {
			exps = append(exps, readTable(t, file)...)
		} else {
			exps = append(exps, readLines(t, file)...)
		}
	}
	return exps
}

func readLines(t *testing.T, file string) (exps []*trinity.Experience) {
	t.Helper()
	data, err := os.ReadFile(file)
	for ending, tool := range map[string]string{".gz": "gzip", ".zst": "zstd"} {
		if strings.HasSuffix(file, ending) {
			c := exec.Command(tool, "-dc")
			if c.Err != nil {
				t.Skipf("%s is not installed", tool)
			}
			c.Stdin = strings.NewReader(string(data))
			data, err = c.Output()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		e, err := experience.FromRow(row)
		if err != nil {
			t.Fatal(err)
		}
		exps = append(exps, e)
	}
	return exps
}

func readTable(t *testing.T, file string) (exps []*trinity.Experience) {
	t.Helper()
	rows, err := parquet.ReadFile[experience.Row](file)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		e, err := experience.Decode(r.Experience)
		if err != nil {
			t.Fatal(err)
		}
		if r.ID != e.ID.String() || r.Step != e.ID.Step || r.Response != e.Response || r.ModelVersion != e.Versions[1] ||
			*r.Reward != e.Reward.Value {
			t.Errorf("the columns %+v are not those of %+v", r, e)
		}
		exps = append(exps, e)
	}
	return exps
}

func write(t *testing.T, path string, steps ...[]trinity.Group) {
	t.Helper()
	w := writer(t, path)
	for _, groups := range steps {
		if err := w.Write(t.Context(), groups[0][0].ID.Step, groups); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// inEveryForm checks archives in files, and one in a database.
func inEveryForm(t *testing.T, check func(t *testing.T, path string)) {
	for _, form := range experience.Forms {
		t.Run(form, func(t *testing.T) { check(t, filepath.Join(t.TempDir(), "new", "copy"+form)) })
	}
	t.Run("SQLite", func(t *testing.T) { check(t, sqliteArchive(t)) })
}

func TestStepsAreKept(t *testing.T) { inEveryForm(t, stepsAreKept) }

func stepsAreKept(t *testing.T, path string) {
	write(t, path, ofStep(1, 2), ofStep(2, 2), ofStep(12, 1))
	if got, want := written(t, path), "1.0 1.1 2.0 2.1 12.0"; got != want {
		t.Errorf("it has %s, want %s", got, want)
	}
	if got, want := readAll(t, path)[1], ofStep(1, 2)[0][1]; !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

func TestWritingAStepAgainReplacesIt(t *testing.T) { inEveryForm(t, replacesSteps) }

// replacesSteps writes a step again with other experiences, and with none; all other steps stay.
func replacesSteps(t *testing.T, path string) {
	write(t, path, ofStep(1, 1), ofStep(2, 2), ofStep(3, 1))
	write(t, path, ofStep(2, 3))
	if got, want := written(t, path), "1.0 2.0 2.1 2.2 3.0"; got != want {
		t.Errorf("it has %s, want %s", got, want)
	}
	w := writer(t, path)
	for range 2 { // there is nothing to remove the second time
		if err := w.Write(t.Context(), 2, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := written(t, path), "1.0 3.0"; got != want {
		t.Errorf("after step 2 came to nothing it has %s, want %s", got, want)
	}
	if left, _ := filepath.Glob(filepath.Join(path, "step-*2.*")); len(left) > 0 {
		t.Errorf("after step 2 came to nothing there is %v", left)
	}
}

func TestAFileAtThePathIsRefused(t *testing.T) {
	for _, form := range experience.Forms {
		path := filepath.Join(t.TempDir(), "notes"+form)
		if err := os.WriteFile(path, []byte("my notes\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := New(path, ""); err == nil || !strings.Contains(err.Error(), path+" is a file, but an archive is a directory") {
			t.Errorf("got %v", err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != "my notes\n" {
			t.Errorf("the file is now %q, %v", data, err)
		}
	}
}

func TestUnknownForm(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copy.csv")
	if _, err := New(dir, ""); err == nil || !strings.Contains(err.Error(), "copy.csv: not a form of experiences") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("New made the directory")
	}
}

// A number that is not finite does not end a run. Parquet and databases keep it, JSON Lines leave
// it out.
func TestNumbersThatAreNotFinite(t *testing.T) {
	inf := float32(math.Inf(-1))
	inEveryForm(t, func(t *testing.T, path string) {
		groups := ofStep(1, 1)
		e := groups[0][0]
		e.Logprobs, e.Advantages = make([]float32, len(e.Tokens)), make([]float32, len(e.Tokens))
		e.Logprobs[1], e.Advantages[1] = inf, float32(math.NaN())
		e.Returns, e.RefLogprobs, e.TeacherLogprobs = slices.Clone(e.Advantages), slices.Clone(e.Logprobs), slices.Clone(e.Logprobs)
		e.Info = map[string]any{"none": math.NaN(), "some": []float64{1, math.Inf(1)}, "all": 3}
		e.Metrics = map[string]float64{"x": math.NaN(), "y": 1}
		write(t, path, groups)
		got := readAll(t, path)[0]
		if want := map[string]any{"some": []any{1.0, nil}, "all": 3.0}; !reflect.DeepEqual(got.Info, want) {
			t.Errorf("info is %v, want %v", got.Info, want)
		}
		if exact := !strings.Contains(path, ".jsonl"); exact {
			if got.Logprobs[1] != inf || got.Advantages[1] == got.Advantages[1] || len(got.Metrics) != 2 {
				t.Errorf("the numbers are not kept: %+v", got)
			}
		} else if got.Logprobs != nil || got.Advantages != nil || got.Returns != nil || got.RefLogprobs != nil || got.TeacherLogprobs != nil ||
			!maps.Equal(got.Metrics, map[string]float64{"y": 1}) {
			t.Errorf("there are numbers that JSON cannot express: %+v", got)
		}
	})
}
