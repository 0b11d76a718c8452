package pipeline

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func ofStep(step int64, n int) []trinity.Group {
	var g trinity.Group
	for run := range n {
		g = append(g, &trinity.Experience{ID: trinity.ExperienceID{Step: step, Task: "t<1>", Run: run}, Tokens: []int32{1}, Mask: []bool{false}, Reward: trinity.NewReward(nil)})
	}
	return []trinity.Group{g}
}

// written lists step and run of each line.
func written(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		var e trinity.Experience
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, fmt.Sprintf("%d.%d", e.ID.Step, e.ID.Run))
	}
	return strings.Join(out, " ")
}

func write(t *testing.T, path string, steps ...[]trinity.Group) {
	t.Helper()
	c := &Copy{Path: path}
	for _, groups := range steps {
		if err := c.Write(groups); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestACopyIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "copy.jsonl")
	p := Pipeline{Input: &Copy{Path: path}, Operators: []Operator{{"none", part(func([]trinity.Group) ([]trinity.Group, trinity.Metrics, error) { return nil, nil, nil })}}, Say: func(string) {}}
	for step := range int64(3) {
		if _, _, err := p.Process(t.Context(), ofStep(step+1, 2)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := p.Process(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Input.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := written(t, path), "1.0 1.1 2.0 2.1 3.0 3.1"; got != want {
		t.Errorf("the copy has %s, want %s", got, want)
	}
}

func TestACopyIsGoneOnWith(t *testing.T) {
	for _, c := range []struct {
		torn string // what the killed run wrote last
		from int64
		want string
	}{
		{"", 4, "1.0 2.0 2.1 3.0 4.0"},
		{`{"id":{"step":4,"task":"t`, 4, "1.0 2.0 2.1 3.0 4.0"},
		{"", 3, "1.0 2.0 2.1 3.0"},
		{`{"id"`, 2, "1.0 2.0"},
		{"", 9, "1.0 2.0 2.1 3.0 9.0"},
	} {
		path := filepath.Join(t.TempDir(), "copy.jsonl")
		write(t, path, ofStep(1, 1), ofStep(2, 2), ofStep(3, 1))
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(c.torn); err != nil {
			t.Fatal(err)
		}
		f.Close()
		write(t, path, ofStep(c.from, 1))
		if got := written(t, path); got != c.want {
			t.Errorf("from step %d, after %q: %s, want %s", c.from, c.torn, got, c.want)
		}
	}
}

func TestACopyOfAnotherRunIsMovedAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.jsonl")
	write(t, path, ofStep(1, 3))
	write(t, path, ofStep(1, 2))
	write(t, path, ofStep(1, 1))
	for name, want := range map[string]string{path: "1.0", path + ".1": "1.0 1.1 1.2", path + ".2": "1.0 1.1"} {
		if got := written(t, name); got != want {
			t.Errorf("%s has %s, want %s", filepath.Base(name), got, want)
		}
	}
}

func TestACopyOverwritesNoOtherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.jsonl")
	if err := os.WriteFile(path, []byte("my notes\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (&Copy{Path: path}).Write(ofStep(1, 1)); err == nil || !strings.Contains(err.Error(), "notes.jsonl") {
		t.Errorf("got %v, want an error that names the file", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "my notes\n" {
		t.Errorf("the file is now %q, %v", data, err)
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
	e.Info = map[string]any{"f": math.NaN()}
	if err := (&Copy{Path: path + "2"}).Write(groups); err == nil || !strings.Contains(err.Error(), e.ID.String()) {
		t.Errorf("got %v, want an error that names the experience", err)
	}
}
