package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("starlark",
		"Edits groups by a script in Starlark, a small Python without files, network and clock. It defines process(group), which is given the list of a group's experiences and returns the list of those "+
			"that are kept, changed in place or not. "+wireForm+" The modules json and math are there; what is printed comes on standard error once the step is done. It runs in a process of its own, so that "+
			"it cannot take the run's memory. Metrics: filtered_count, reward_diff/{mean,max,min}.",
		func() trinity.Operator { return &Starlark{MaxSteps: 10_000_000, MaxMemory: 1024} })
}

// Starlark runs a script on each group.
type Starlark struct {
	Script    string `yaml:"script" doc:"the text of the script"`
	Path      string `yaml:"path" doc:"or a file that holds it"`
	MaxSteps  int64  `yaml:"max_steps" doc:"steps of the interpreter that the script may take for one group; more end the run"`
	MaxMemory int    `yaml:"max_memory_mb" doc:"MiB of memory that the script may take, the experiences of a group with it; more end the run"`
}

// loadTime is for the top level of a script, where one call may take any time.
const loadTime = time.Minute

// Validate runs the script's top level, which must define process.
func (s *Starlark) Validate() error {
	switch {
	case (s.Script == "") == (s.Path == ""):
		return errors.New("set script or path, one of the two")
	case s.MaxSteps < 1:
		return fmt.Errorf("max_steps: must be at least 1, got %d", s.MaxSteps)
	case s.MaxMemory < 1:
		return fmt.Errorf("max_memory_mb: must be at least 1, got %d", s.MaxMemory)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), loadTime, fmt.Errorf("the script's top level took more than %v", loadTime))
	defer cancel()
	_, err := s.run(ctx, nil)
	return err
}

// Process implements trinity.Operator. What goes wrong in the script is an error with the line that it happened on.
func (s *Starlark) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	lines, err := encode(groups)
	if err != nil {
		return nil, nil, err
	}
	var asked []question
	rest := lines
	for _, g := range groups {
		if len(g) > 0 {
			asked = append(asked, question{g[0].ID.Task, "[" + string(bytes.Join(rest[:len(g)], []byte(","))) + "]"})
			rest = rest[len(g):]
		}
	}
	answers, err := s.run(ctx, asked)
	if err != nil {
		return nil, nil, err
	}
	return edit(groups, lines, answers)
}

// question is a group that the script is asked about, its experiences as a JSON list.
type question struct{ task, group string }

func (q question) failed(err error) error { return fmt.Errorf("group of task %s: %w", q.task, err) }

// run has the script's process answer for groups.
func (s *Starlark) run(ctx context.Context, asked []question) ([]answer, error) {
	order, err := s.order()
	if err != nil {
		return nil, err
	}
	heard, err := order.perform(ctx, asked)
	var answers []answer
	for i, kept := range heard.kept {
		said, err := decode([]byte(kept))
		if err != nil {
			return nil, asked[i].failed(err)
		}
		answers = append(answers, said...)
	}
	if err != nil && heard.loaded && len(heard.kept) < len(asked) {
		err = asked[len(heard.kept)].failed(err)
	}
	return answers, err
}

// order is what the script's process is to do.
func (s *Starlark) order() (order, error) {
	o := order{Name: "script", Text: s.Script, MaxSteps: uint64(s.MaxSteps), MaxMemory: s.MaxMemory}
	if s.Path != "" {
		text, err := os.ReadFile(s.Path)
		if err != nil {
			return order{}, err
		}
		o.Name, o.Text = s.Path, string(text)
	}
	return o, nil
}
