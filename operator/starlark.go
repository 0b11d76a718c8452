package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("starlark",
		"Edits groups with a script in Starlark, a small Python without files, network and clock. The script "+
			"defines process(group). It gets the list of a group's experiences and returns the list of "+
			"experiences to keep, which it may change in place. "+
			wireForm+
			" The modules json and math are available; print writes to standard error. max_steps and timeout "+
			"bound the script's time; on Linux its memory is bounded by 4 GiB. Metrics: filtered_count, "+
			"reward_diff/{mean,max,min}.",
		func() trinity.Operator { return &starlarkOperator{MaxSteps: 10_000_000, Timeout: 60} })
}

// starlarkOperator runs a script on each group.
type starlarkOperator struct {
	Script   string  `yaml:"script" doc:"the text of the script"`
	Path     string  `yaml:"path" doc:"a file with the script, instead of script"`
	MaxSteps int64   `yaml:"max_steps" range:"[1,)" doc:"largest number of interpreter steps for one group; more end the run"`
	Timeout  float64 `yaml:"timeout" range:"(0,inf]" doc:"seconds for one group; more end the run"`
}

// Validate runs the script's top level, which must define process.
func (s *starlarkOperator) Validate() error {
	switch {
	case (s.Script == "") == (s.Path == ""):
		return errors.New("set either script or path")
	}
	_, err := s.run(context.Background(), nil)
	return err
}

// run runs the script's top level, and then process for each group, a JSON list.
func (s *starlarkOperator) run(ctx context.Context, groups []string) (kept []string, err error) {
	job := scriptJob{Name: "script", Text: s.Script, Limits: limits{uint64(s.MaxSteps), wait.Seconds(s.Timeout)}, Groups: groups}
	if s.Path != "" {
		file, err := os.ReadFile(s.Path)
		if err != nil {
			return nil, err
		}
		job.Name, job.Text = s.Path, string(file)
	}
	return job.run(ctx)
}

// Process implements trinity.Operator. An error of the script names the group and the line.
func (s *starlarkOperator) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	lines, err := encode(groups)
	if err != nil {
		return nil, nil, err
	}
	var tasks, lists []string
	rest := lines
	for _, g := range groups {
		if len(g) > 0 {
			tasks = append(tasks, g[0].ID.Task)
			lists = append(lists, "["+string(bytes.Join(rest[:len(g)], []byte(",")))+"]")
			rest = rest[len(g):]
		}
	}
	kept, failed := s.run(ctx, lists)
	var answers []answer
	for i, text := range kept {
		some, err := decode([]byte(text))
		if err != nil {
			return nil, nil, fmt.Errorf("group of task %s: %w", tasks[i], err)
		}
		answers = append(answers, some...)
	}
	switch {
	case failed != nil && len(kept) < len(tasks):
		return nil, nil, fmt.Errorf("group of task %s: %w", tasks[len(kept)], failed)
	case failed != nil:
		return nil, nil, failed
	}
	return edit(groups, lines, answers)
}
