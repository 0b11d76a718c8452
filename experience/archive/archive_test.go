package archive

import (
	"encoding/json"
	"errors"
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
	"github.com/trinity-go/trinity/database"
	"github.com/trinity-go/trinity/experience"
)

func ofStep(step int64, n int) []trinity.Group {
	var g trinity.Group
	for run := range n {
		g = append(g, &trinity.Experience{
			ID: trinity.ExperienceID{Step: step, Task: "t<1>", Run: run}, Tokens: []int32{1, 2000}, Mask: []bool{false, true}, Logprobs: []float32{0, -0.1},
			PromptLen: 1, Reward: trinity.NewReward(map[string]float64{"a": 0.5}), Versions: [2]int64{3, 4}, Prompt: "p", Response: "é\n" + strings.Repeat("r", run),
		})
	}
	return []trinity.Group{g}
}

var theRun = Run{Name: "project/group/run/output-word", Dir: "checkpoints/run", Say: func(string) {}}

// fileOf is the one file of a form, or a table's of a step.
func fileOf(t *testing.T, path string, step int64) string {
	t.Helper()
	if !strings.HasSuffix(path, ".parquet") {
		return path
	}
	return filepath.Join(path, fmt.Sprintf(partName, step, 0))
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

// readAll reads with other programs, where there are any: gzip and zstd.
func readAll(t *testing.T, path string) (exps []*trinity.Experience) {
	t.Helper()
	if database.IsURL(path) {
		return readRows(t, path)
	}
	if strings.Contains(path, ".parquet") {
		return readTable(t, path)
	}
	data, err := os.ReadFile(path)
	for ending, tool := range map[string]string{".gz": "gzip", ".zst": "zstd"} {
		if strings.Contains(path, ending) {
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
		e, err := Experience(row)
		if err != nil {
			t.Fatal(err)
		}
		exps = append(exps, e)
	}
	return exps
}

func readTable(t *testing.T, dir string) (exps []*trinity.Experience) {
	t.Helper()
	parts, err := partsOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		rows, err := parquet.ReadFile[row](filepath.Join(dir, p.name))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			e, err := Experience(map[string]any{column: string(r.Experience)})
			if err != nil {
				t.Fatal(err)
			}
			if r.ID != e.ID.String() || r.Step != e.ID.Step || r.Response != e.Response || r.ModelVersion != e.Versions[1] || *r.Reward != e.Reward.Value {
				t.Errorf("the columns %+v are not those of %+v", r, e)
			}
			exps = append(exps, e)
		}
	}
	return exps
}

func write(t *testing.T, path string, steps ...[]trinity.Group) {
	t.Helper()
	w := writer(t, path)
	step := int64(0)
	for _, groups := range steps {
		step++
		if groups != nil {
			step = groups[0][0].ID.Step
		}
		if err := w.Write(t.Context(), step, groups); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// inEveryForm checks archives that are files, and one in a database.
func inEveryForm(t *testing.T, check func(t *testing.T, path string)) {
	for _, form := range Forms {
		t.Run(form, func(t *testing.T) { check(t, filepath.Join(t.TempDir(), "new", "copy"+form)) })
	}
	t.Run("SQLite", func(t *testing.T) { check(t, sqliteArchive(t)) })
}

// inEveryFile checks archives that are files.
func inEveryFile(t *testing.T, check func(t *testing.T, path string)) {
	inEveryForm(t, func(t *testing.T, path string) {
		if database.IsURL(path) {
			t.Skip("it is no file")
		}
		check(t, path)
	})
}

func TestStepsAreKept(t *testing.T) { inEveryForm(t, stepsAreKept) }

func stepsAreKept(t *testing.T, path string) {
	write(t, path, ofStep(1, 2), nil, ofStep(2, 2), ofStep(3, 1), ofStep(3, 2))
	if got, want := written(t, path), "1.0 1.1 2.0 2.1 3.0 3.0 3.1"; got != want {
		t.Errorf("it has %s, want %s", got, want)
	}
	if got, want := readAll(t, path)[1], ofStep(1, 2)[0][1]; !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

func TestAFileIsGoneOnWith(t *testing.T) {
	inEveryFile(t, func(t *testing.T, path string) {
		for _, c := range []struct {
			torn float64 // how much of the last step a kill has left
			from int64
			want string
		}{
			{1, 4, "1.0 2.0 2.1 3.0 4.0"}, {0.5, 3, "1.0 2.0 2.1 3.0"}, {0.02, 3, "1.0 2.0 2.1 3.0"}, {1, 3, "1.0 2.0 2.1 3.0"}, {0.9, 2, "1.0 2.0"}, {1, 9, "1.0 2.0 2.1 3.0 9.0"},
		} {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			write(t, path, ofStep(1, 1), ofStep(2, 2))
			last := fileOf(t, path, 3)
			before, _ := os.Stat(last) // 0 bytes where it is not there
			record, err := os.ReadFile(path + ownerFile)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, ofStep(3, 1))
			after, err := os.Stat(last)
			if err != nil {
				t.Fatal(err)
			}
			if c.torn < 1 && before == nil { // a table's step has its name when it is whole
				err = os.Rename(last, filepath.Join(path, ".writing_x"))
			} else if c.torn < 1 {
				err = os.Truncate(last, before.Size()+int64(c.torn*float64(after.Size()-before.Size())))
			}
			if c.torn < 1 { // the record comes after the step
				err = errors.Join(err, os.WriteFile(path+ownerFile, record, 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, ofStep(c.from, 1))
			if got := written(t, path); got != c.want {
				t.Errorf("from step %d, with %v of the last step: %s, want %s", c.from, c.torn, got, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(path, ".writing_*")); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		}
	})
}

// The file is found its end in by few looks: with long lines and short ones, at any step.
func TestEveryStepIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.jsonl")
	var steps [][]trinity.Group
	for step := int64(1); step <= 20; step++ {
		steps = append(steps, ofStep(2*step, int(step*step*7%40)+1))
	}
	write(t, path, steps...)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for from := int64(3); from <= 41; from++ {
		if err := errors.Join(os.WriteFile(path, whole, 0o644), os.Remove(path+ownerFile)); err != nil {
			t.Fatal(err)
		}
		write(t, path, ofStep(from, 1))
		want := 1
		for _, s := range steps {
			if s[0][0].ID.Step < from {
				want += len(s[0])
			}
		}
		if got := readAll(t, path); len(got) != want || got[len(got)-1].ID.Step != from || got[len(got)-2].ID.Step >= from {
			t.Fatalf("from step %d: %d experiences, want %d", from, len(got), want)
		}
	}
}

func TestAStepThatLeavesNothingMakesRoom(t *testing.T) { inEveryForm(t, leavesNothing) }

// leavesNothing has a step come to nothing that a killed run had written, and others after it.
func leavesNothing(t *testing.T, path string) {
	for from, want := range map[int64]string{1: "", 2: "1.0", 3: "1.0 2.0 2.1", 5: "1.0 2.0 2.1 3.0"} {
		for after, more := range map[int64]string{0: "", 7: " 7.0"} {
			name := strings.Replace(path, "new", fmt.Sprint("new", from, after), 1)
			write(t, name, ofStep(1, 1), ofStep(2, 2), ofStep(3, 1))
			w := writer(t, name)
			if err := w.Write(t.Context(), from, nil); err != nil {
				t.Fatal(err)
			}
			if after > 0 {
				if err := w.Write(t.Context(), after, ofStep(after, 1)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if file := !database.IsURL(name); file && want+more == "" {
				if parts, err := filepath.Glob(filepath.Join(name, "*")); err != nil || len(parts) > 0 {
					t.Errorf("there is %v, %v", parts, err)
				}
				if info, err := os.Stat(name); err == nil && !info.IsDir() {
					t.Error("there is a file with nothing in it")
				}
			} else if got := written(t, name); got != strings.TrimSpace(want+more) {
				t.Errorf("of step %d nothing is left, then came %d: %s, want %s", from, after, got, want+more)
			}
			if from == 1 && written(t, name+".1") != "1.0 2.0 2.1 3.0" {
				t.Error("what would have been nothing is not moved aside")
			}
		}
	}
}

func TestAnArchiveOfAnotherRunIsMovedAside(t *testing.T) { inEveryForm(t, movedAside) }

func movedAside(t *testing.T, path string) {
	write(t, path, ofStep(1, 3))
	write(t, path, ofStep(1, 2))
	write(t, path, ofStep(1, 1))
	for name, want := range map[string]string{path: "1.0", path + ".1": "1.0 1.1 1.2", path + ".2": "1.0 1.1"} {
		if got := written(t, name); got != want {
			t.Errorf("%s has %s, want %s", filepath.Base(name), got, want)
		}
	}
}

func TestNoOtherFileIsOverwritten(t *testing.T) {
	inEveryFile(t, func(t *testing.T, path string) {
		foreign := path
		if strings.HasSuffix(path, ".parquet") {
			foreign = filepath.Join(path, "train.parquet")
		}
		if err := os.MkdirAll(filepath.Dir(foreign), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(foreign, []byte("my notes\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := New(path, theRun).Write(t.Context(), 1, ofStep(1, 1)); err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one line that names the file", err)
		}
		if data, err := os.ReadFile(foreign); err != nil || string(data) != "my notes\n" {
			t.Errorf("the file is now %q, %v", data, err)
		}
	})
}

// A copy that a person has put beside the steps of a table is no step, whatever its name begins with.
func TestACopyInsideATableIsNoStep(t *testing.T) {
	for _, name := range []string{"step-000000002-0.parquet.bak", "step-2-0.parquet", "step-000000002-0.parquet (1)", "step-000000002-+0.parquet"} {
		path := filepath.Join(t.TempDir(), "copy.parquet")
		write(t, path, ofStep(1, 1), ofStep(2, 1))
		foreign := filepath.Join(path, name)
		if err := os.WriteFile(foreign, []byte("my copy"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := New(path, theRun).Write(t.Context(), 2, ofStep(2, 1)); err == nil || !strings.Contains(err.Error(), name+" is no step of experiences: move it away") {
			t.Errorf("%s: %v", name, err)
		}
		for _, of := range []string{foreign, fileOf(t, path, 1), fileOf(t, path, 2)} {
			if _, err := os.Stat(of); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestWhatJSONCannotSay(t *testing.T) {
	groups := ofStep(1, 1)
	e := groups[0][0]
	e.Reward = trinity.Reward{Value: math.NaN(), Valid: true, Parts: map[string]float64{"a": math.Inf(1), "b": 1}}
	e.Metrics = map[string]float64{"x": math.NaN()}
	path := filepath.Join(t.TempDir(), "copy.jsonl")
	write(t, path, groups)
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), `"valid":false,"reason":"the reward is NaN"`) || !strings.Contains(string(data), `"task":"t<1>"`) {
		t.Errorf("wrote %s, %v", data, err)
	}
	if len(e.Reward.Parts) != 2 || len(e.Metrics) != 1 || !e.Reward.Valid {
		t.Error("the experience itself was changed")
	}
}

// Nothing in the numbers of an experience ends a run because there is no form for it.
func TestNumbersThatAreNotFiniteAreLeftOut(t *testing.T) {
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
		} else if got.Logprobs != nil || got.Advantages != nil || got.Returns != nil || got.RefLogprobs != nil || got.TeacherLogprobs != nil || !maps.Equal(got.Metrics, map[string]float64{"y": 1}) {
			t.Errorf("there are numbers that JSON cannot say: %+v", got)
		}
	})
}

func TestRowsThatAreNoExperiences(t *testing.T) {
	for want, row := range map[string]map[string]any{
		"it has no tokens": {"prompt": "x"},
		"column experience is NULL, because no checkpoint of its run needs it: leave such rows out (WHERE experience IS NOT NULL), or read an archive": {"prompt": "x", "response": "y", "experience": nil},
		"cannot unmarshal":   {"tokens": "x"},
		"illegal base64":     {"experience": "<>"},
		"does not begin":     {"experience": "AAAA"},
		"before its length":  {"experience": "TGX1"},
		"mask has length 0":  {"tokens": []any{int64(1)}},
		"column experience:": {"experience": "\n!"},
	} {
		if e, err := Experience(row); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, %v; want %q", row, e, err, want)
		}
	}
}

func TestTextBesideTheRest(t *testing.T) {
	e := ofStep(1, 1)[0][0]
	for inside, want := range map[string]string{"": "of the column", "exactly\x00": "exactly\x00"} {
		e.Prompt, e.Response = inside, inside
		data, err := experience.Append(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Experience(map[string]any{column: string(data), "prompt": "of the column", "response": "of the column"})
		if err != nil || got.Prompt != want || got.Response != want {
			t.Errorf("read %q, %q, %v; want %q", got.Prompt, got.Response, err, want)
		}
	}
}

func TestUnknownForms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x", "copy.csv")
	if err := New(path, theRun).Write(t.Context(), 1, ofStep(1, 1)); err == nil || !strings.Contains(err.Error(), "copy.csv") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory was made: %v", err)
	}
}

// Whatever is behind the first mark, and wherever the file ends, what stays is whole steps.
func FuzzFrames(f *testing.F) {
	var sound []byte
	for step := range int64(3) {
		data, err := gz.pack(step, []byte("x\n"))
		if err != nil {
			f.Fatal(err)
		}
		sound = append(sound, data...)
	}
	f.Add(sound, int64(2))
	f.Add(sound[:len(sound)-3], int64(9))
	f.Fuzz(func(t *testing.T, data []byte, step int64) {
		end, _, _, err := gz.before(strings.NewReader(string(data)), int64(len(data)), step)
		if err == nil && (end < 0 || end > int64(len(data))) {
			t.Errorf("%d of %d bytes stay", end, len(data))
		}
		if _, _, _, err := (plain{}).before(strings.NewReader(string(data)), int64(len(data)), step); err != nil && len(data) == 0 {
			t.Error(err)
		}
	})
}
