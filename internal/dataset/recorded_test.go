package dataset

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/experience/archive"
	"github.com/trinity-go/trinity/trinitytest"
)

// recordedSteps are two steps of a group of two.
func recordedSteps() (steps [][]trinity.Group) {
	for step := int64(1); step <= 2; step++ {
		var g trinity.Group
		for run := range 2 {
			g = append(g, &trinity.Experience{
				ID: trinity.ExperienceID{Step: step, Task: "sums/1", Run: run, Turn: 2}, Tokens: []int32{1, 2, 130000},
				Mask: []bool{false, false, true}, PromptLen: 2,
				Logprobs: []float32{0, 0, -0.1}, Advantages: []float32{0, 0, 1.5}, Reward: trinity.NewReward(map[string]float64{"accuracy": 0.25}),
				Temperature: 0.7,
				Versions:    [2]int64{1, 2}, Info: map[string]any{"n": 3.0, "s": "é"}, Prompt: "1+1=", Response: "3",
			})
		}
		steps = append(steps, []trinity.Group{g})
	}
	return steps
}

func TestExperiencesOfAnEarlierRun(t *testing.T) {
	format, err := Formatter("experience", Format{MaxTokens: 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range experience.Forms {
		path := filepath.Join(t.TempDir(), "run"+form)
		w, err := archive.New(path, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, groups := range recordedSteps() {
			if err := w.Write(t.Context(), groups[0][0].ID.Step, groups); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		d, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		sel := &trinitytest.InOrder{}
		if err := sel.Start(d); err != nil {
			t.Fatal(err)
		}
		s := NewSource(d, sel, format, 2)
		var got []trinity.ExperienceID
		for range 2 {
			exps, err := trinitytest.Take(t.Context(), s, 4, 0)
			if err != nil {
				t.Fatal(err)
			}
			want := recordedSteps()[1][0][1]
			got = append(got, exps[0].ID, exps[3].ID)
			want.ID = exps[3].ID
			if !reflect.DeepEqual(exps[3], want) {
				t.Errorf("%s: read %+v, want %+v", form, exps[3], want)
			}
		}
		if want := []trinity.ExperienceID{{Step: 1, Task: "1/sums/1", Turn: 2}, {Step: 1, Task: "2/sums/1", Run: 1, Turn: 2},
			{Step: 2, Task: "1/sums/1", Turn: 2}, {Step: 2, Task: "2/sums/1", Run: 1, Turn: 2}}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the ids are %v, want %v", form, got, want)
		}
	}
}

func TestRepeatedRowInABatchIsAnotherTask(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.jsonl")
	w, err := archive.New(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), 1, recordedSteps()[0]); err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	sel := &trinitytest.InOrder{}
	if err := sel.Start(d); err != nil {
		t.Fatal(err)
	}
	format, err := Formatter("experience", Format{MaxTokens: 2, Truncate: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = trinitytest.Take(t.Context(), NewSource(d, sel, format, 2), 4, 0)
	if err == nil || !strings.Contains(err.Error(), "a prompt of 2 tokens") {
		t.Errorf("got %v", err)
	}
	format.Format = recordedOnly(t)
	exps, err := trinitytest.Take(t.Context(), NewSource(d, sel, format, 2), 4, 0)
	if err != nil || exps[0].ID.Task != "1/sums/1" || exps[2].ID.Task != "1/sums/1~1" || exps[3].ID.Run != 1 {
		t.Errorf("got %v, %v", exps, err)
	}
}

// recordedOnly formats experiences without a limit of tokens.
func recordedOnly(t *testing.T) func(map[string]any) ([]*trinity.Experience, error) {
	t.Helper()
	f, err := Formatter("experience", Format{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f.Format
}
