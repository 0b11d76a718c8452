package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	starjson "go.starlark.net/lib/json"
	starmath "go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("starlark",
		"Edits groups by a script in Starlark, a small Python without files, network and clock. It defines process(group), which is given the list of a group's experiences and returns the list of those "+
			"that are kept, changed in place or not. "+wireForm+" The modules json and math are there; print writes to standard error. Metrics: filtered_count, reward_diff/{mean,max,min}.",
		func() trinity.Operator { return &Starlark{MaxSteps: 10_000_000} })
}

// Starlark runs a script on each group.
type Starlark struct {
	Script   string `yaml:"script" doc:"the text of the script"`
	Path     string `yaml:"path" doc:"or a file that holds it"`
	MaxSteps int64  `yaml:"max_steps" doc:"steps of the interpreter that the script may take for one group; more end the run; they do not bound its memory"`
}

// Validate runs the script's top level, which must define process.
func (s *Starlark) Validate() error {
	if (s.Script == "") == (s.Path == "") {
		return errors.New("set script or path, one of the two")
	}
	if s.MaxSteps < 1 {
		return fmt.Errorf("max_steps: must be at least 1, got %d", s.MaxSteps)
	}
	_, err := s.load()
	return err
}

// load returns the script's function.
func (s *Starlark) load() (starlark.Callable, error) {
	name, text := "script", []byte(s.Script)
	if s.Path != "" {
		var err error
		if name, text, err = read(s.Path); err != nil {
			return nil, err
		}
	}
	thread := s.thread()
	globals, err := starlark.ExecFileOptions(&syntax.FileOptions{}, thread, name, text,
		starlark.StringDict{"json": starjson.Module, "math": starmath.Module})
	if err != nil {
		return nil, s.explain(thread, err)
	}
	process, ok := globals["process"].(starlark.Callable)
	if !ok {
		return nil, fmt.Errorf("%s does not define process(group)", name)
	}
	return process, nil
}

func read(path string) (name string, text []byte, err error) {
	text, err = os.ReadFile(path)
	return path, text, err
}

func (s *Starlark) thread() *starlark.Thread {
	thread := &starlark.Thread{Name: "operator"}
	thread.SetMaxExecutionSteps(uint64(s.MaxSteps))
	return thread
}

// Process implements trinity.Operator. What goes wrong in the script is an error with the line that it happened on.
func (s *Starlark) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	process, err := s.load()
	if err != nil {
		return nil, nil, err
	}
	lines, err := encode(groups)
	if err != nil {
		return nil, nil, err
	}
	var answers []answer
	rest := lines
	for _, g := range groups {
		if len(g) == 0 {
			continue
		}
		said, err := s.call(ctx, process, rest[:len(g)])
		if err != nil {
			return nil, nil, fmt.Errorf("group of task %s: %w", g[0].ID.Task, err)
		}
		answers, rest = append(answers, said...), rest[len(g):]
	}
	return edit(groups, lines, answers)
}

// call gives the script one group, each experience as JSON, and reads what it returns.
func (s *Starlark) call(ctx context.Context, process starlark.Callable, lines [][]byte) ([]answer, error) {
	thread := s.thread()
	defer context.AfterFunc(ctx, func() { thread.Cancel("the run has ended") })()
	group, err := starlark.Call(thread, starjson.Module.Members["decode"], starlark.Tuple{starlark.String("[" + string(bytes.Join(lines, []byte(","))) + "]")}, nil)
	if err != nil {
		return nil, err
	}
	kept, err := starlark.Call(thread, process, starlark.Tuple{group}, nil)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, s.explain(thread, err)
	}
	list, ok := kept.(*starlark.List)
	if !ok {
		return nil, fmt.Errorf("process returned %s, want the list of experiences that are kept", kept.Type())
	}
	var text bytes.Buffer
	for e := range list.Elements() {
		line, err := starlark.Call(thread, starjson.Module.Members["encode"], starlark.Tuple{e}, nil)
		if err != nil {
			return nil, err
		}
		text.WriteString(string(line.(starlark.String)))
	}
	return decode(text.Bytes())
}

// explain puts the line of the script before an error, and the limit in place of the interpreter's word for it.
func (s *Starlark) explain(thread *starlark.Thread, err error) error {
	if thread.ExecutionSteps() >= uint64(s.MaxSteps) {
		return fmt.Errorf("the script took more than %d steps: raise max_steps, or make it end", s.MaxSteps)
	}
	var inScript *starlark.EvalError
	if !errors.As(err, &inScript) {
		return err
	}
	for i := range inScript.CallStack {
		if at := inScript.CallStack.At(i).Pos; at.Line > 0 {
			return fmt.Errorf("%s:%d: %s", at.Filename(), at.Line, inScript.Msg)
		}
	}
	return inScript
}
