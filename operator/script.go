package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	starjson "go.starlark.net/lib/json"
	starmath "go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/trinity-go/trinity/internal/process"
	_ "github.com/trinity-go/trinity/internal/quiet" // of Starlark
)

// script is a loaded Starlark program that defines process(group), in a child process.
type script struct {
	name   string
	limits limits
	lines  *json.Encoder // gets what the script prints
	entry  starlark.Callable
}

// limits bound one call of a script.
type limits struct {
	Steps   uint64
	Timeout time.Duration
}

// scriptJob is what a child process does: it loads a script and calls it with groups, which are
// JSON lists.
type scriptJob struct {
	Name, Text string
	Limits     limits
	Groups     []string
}

// scriptLine is a line of the child's output: something printed, or the answer to the next group,
// as consecutive JSON objects.
type scriptLine struct {
	Printed, Kept *string
}

// scripts runs scripts in a child process: a big integer or a deep list takes any amount of memory
// in few steps, and any amount of time in one.
var scripts = process.Confine("starlark", func(in *io.SectionReader, out io.Writer) error {
	var job scriptJob
	if err := json.NewDecoder(in).Decode(&job); err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	s, err := loadScript(lines, job)
	for i := 0; err == nil && i < len(job.Groups); i++ {
		var kept string
		if kept, err = s.process(job.Groups[i]); err == nil {
			err = lines.Encode(scriptLine{Kept: &kept})
		}
	}
	return err
})

// run does the job in a child process. It prints to standard error what the script prints, and
// returns the answers to the groups before the first that fails.
func (job scriptJob) run(ctx context.Context) (kept []string, err error) {
	input, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	size := 0
	err = scripts.Run(ctx, bytes.NewReader(input), func(out io.Reader) error {
		lines := json.NewDecoder(out)
		for {
			var line scriptLine
			if err := lines.Decode(&line); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return fmt.Errorf("%s: %w", job.Name, err)
			}
			if line.Printed != nil {
				fmt.Fprintln(os.Stderr, *line.Printed)
			}
			if line.Kept != nil {
				kept = append(kept, *line.Kept)
				if size += len(*line.Kept); size > maxAnswer {
					return fmt.Errorf("%s: the answers to a step have more than %d MiB", job.Name, maxAnswer>>20)
				}
			}
		}
	})
	return kept, err
}

// loadScript parses the text and runs its top level under the limits.
func loadScript(lines *json.Encoder, job scriptJob) (*script, error) {
	s := &script{name: job.Name, limits: job.Limits, lines: lines}
	modules := starlark.StringDict{"json": starjson.Module, "math": starmath.Module}
	_, program, err := starlark.SourceProgramOptions(&syntax.FileOptions{}, job.Name, job.Text, modules.Has)
	if err != nil {
		return nil, err
	}
	return s, s.guard(func(thread *starlark.Thread) error {
		globals, err := program.Init(thread, modules)
		if err != nil {
			return err
		}
		globals.Freeze() // a group must not see what another group has left
		entry, ok := globals["process"].(starlark.Callable)
		if !ok {
			return fmt.Errorf("%s does not define process(group)", job.Name)
		}
		s.entry = entry
		return nil
	})
}

// process calls the script's process with one group as a JSON list. It returns the experiences to
// keep as consecutive JSON objects.
func (s *script) process(group string) (kept string, err error) {
	var text strings.Builder
	err = s.guard(func(thread *starlark.Thread) error {
		list, err := starlark.Call(thread, starjson.Module.Members["decode"], starlark.Tuple{starlark.String(group)}, nil)
		if err != nil {
			return err
		}
		result, err := starlark.Call(thread, s.entry, starlark.Tuple{list}, nil)
		if err != nil {
			return err
		}
		experiences, ok := result.(*starlark.List)
		if !ok {
			return fmt.Errorf("process returned %s, want the list of experiences to keep", result.Type())
		}
		for e := range experiences.Elements() {
			object, err := starlark.Call(thread, starjson.Module.Members["encode"], starlark.Tuple{e}, nil)
			if err != nil {
				return err
			}
			text.WriteString(string(object.(starlark.String)))
		}
		return nil
	})
	return text.String(), err
}

// guard runs body on a new thread under the script's limits. The interpreter stops between two of
// its steps. If one step, such as sorting a long list, takes more than a second beyond the timeout,
// the child process ends.
func (s *script) guard(body func(*starlark.Thread) error) (err error) {
	late := fmt.Errorf("%s: took more than timeout = %g s for one group", s.name, s.limits.Timeout.Seconds())
	thread := &starlark.Thread{Print: func(_ *starlark.Thread, text string) { _ = s.lines.Encode(scriptLine{Printed: &text}) }}
	thread.SetMaxExecutionSteps(s.limits.Steps)
	var isLate atomic.Bool
	soft := time.AfterFunc(s.limits.Timeout, func() { isLate.Store(true); thread.Cancel("too late") })
	defer soft.Stop()
	hard := time.AfterFunc(s.limits.Timeout+time.Second, func() {
		fmt.Fprintln(os.Stderr, late)
		os.Exit(1)
	})
	defer hard.Stop()
	defer func() {
		switch p := recover(); {
		case p == nil:
		case strings.Contains(fmt.Sprint(p), "len out of range"), strings.Contains(fmt.Sprint(p), "cap out of range"): // list(range(1 << 62))
			err = fmt.Errorf("%s: a list is longer than any memory", s.name)
		default:
			err = fmt.Errorf("%s: the interpreter panicked: %s", s.name, firstAndLast(fmt.Sprint(p)))
		}
	}()
	err = body(thread)
	switch {
	case err == nil:
		return nil
	case thread.ExecutionSteps() >= s.limits.Steps:
		return fmt.Errorf("%s: took more than max_steps = %d steps for one group: raise max_steps, or make the script end",
			s.name, s.limits.Steps)
	case isLate.Load():
		return late
	}
	return errors.New(firstAndLast(atLine(err)))
}

// atLine puts the innermost line of the script before its error.
func atLine(err error) string {
	var inScript *starlark.EvalError
	if !errors.As(err, &inScript) {
		return err.Error()
	}
	for i := range inScript.CallStack {
		if at := inScript.CallStack.At(i).Pos; at.Line > 0 {
			return fmt.Sprintf("%s:%d: %s", at.Filename(), at.Line, inScript.Msg)
		}
	}
	return inScript.Error()
}

// firstAndLast shortens a text to its beginning and its end, in one line.
func firstAndLast(text string) string {
	var e process.Ends
	_, _ = e.Write([]byte(text))
	return e.String()
}
