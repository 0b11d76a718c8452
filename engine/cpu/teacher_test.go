package cpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
)

// TestTeachers computes the log-probabilities of two named teachers with engines for forward
// passes. One teacher is the trained model.
func TestTeachers(t *testing.T) {
	opener, err := registry.Trainers.Build("cpu")
	if err != nil {
		t.Fatal(err)
	}
	before := len(inUse)
	teachers := map[string]engine.Trainer{}
	for name, path := range map[string]string{"itself": "llama", "qwen": "qwen2", "again": "llama"} {
		e, err := opener.OpenTrainer(t.Context(), engine.TrainerSpec{ModelPath: tiny(path).ModelPath, MicroTokens: 32})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		teachers[name] = e
	}
	if n := len(inUse) - before; n != 2 {
		t.Errorf("%d copies of the weights of two models", n)
	}
	all, of := sequences(t, true), []string{"itself", "qwen", "again", "qwen", "itself"}
	for name, e := range teachers {
		var mine []*trinity.Experience
		for i, x := range all {
			if of[i] == name {
				mine = append(mine, x)
			}
		}
		stats, err := e.Forward(t.Context(), whole(mine), trinity.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range mine {
			x.TeacherLogprobs = stats[i].Logprob
		}
	}
	student := map[string]*Engine{"itself": open(t, tiny("llama")), "qwen": open(t, tiny("qwen2"))}
	student["again"] = student["itself"]
	for i, x := range all {
		if err := x.Check(); err != nil {
			t.Error(err)
		}
		want, err := student[of[i]].Forward(t.Context(), whole(all[i:i+1]), trinity.Streams{})
		if err != nil || !slices.Equal(x.TeacherLogprobs, want[0].Logprob) {
			t.Errorf("sequence %d: the teacher's log-probabilities are not those of the model as a student, %v", i, err)
		}
	}
	if _, err := teachers["qwen"].OptimStep(t.Context(), adam); err == nil || !strings.Contains(err.Error(), "ForwardOnly") {
		t.Errorf("a teacher was trained: %v", err)
	}
}
