package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	starjson "go.starlark.net/lib/json"
	starmath "go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/trinity-go/trinity/internal/process"
)

// script is a loaded Starlark program that defines process(group).
type script struct {
	name   string
	limits limits
	entry  starlark.Callable
}

// limits bound one call of a script.
type limits struct {
	steps   uint64
	timeout time.Duration
}

// loadScript parses the text and runs its top level under the limits. name stands in error
// messages.
func loadScript(ctx context.Context, name, text string, limits limits) (*script, error) {
	s := &script{name: name, limits: limits}
	modules := starlark.StringDict{"json": starjson.Module, "math": starmath.Module}
	_, program, err := starlark.SourceProgramOptions(&syntax.FileOptions{}, name, text, modules.Has)
	if err != nil {
		return nil, err
	}
	return s, s.guard(ctx, func(thread *starlark.Thread) error {
		globals, err := program.Init(thread, modules)
		if err != nil {
			return err
		}
		globals.Freeze() // a group must not see what another group has left
		entry, ok := globals["process"].(starlark.Callable)
		if !ok {
			return fmt.Errorf("%s does not define process(group)", name)
		}
		s.entry = entry
		return nil
	})
}

// process calls the script's process with one group as a JSON list. It returns the experiences to
// keep as consecutive JSON objects.
func (s *script) process(ctx context.Context, group string) (kept string, err error) {
	var text strings.Builder
	err = s.guard(ctx, func(thread *starlark.Thread) error {
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

// guard runs body on a new thread under the script's limits and until ctx ends. The interpreter
// stops between two of its steps; it cannot stop within one, such as sorting one long list.
func (s *script) guard(ctx context.Context, body func(*starlark.Thread) error) (err error) {
	late := fmt.Errorf("%s: took more than timeout = %g s for one group", s.name, s.limits.timeout.Seconds())
	ctx, cancel := context.WithTimeoutCause(ctx, s.limits.timeout, late)
	defer cancel()
	thread := &starlark.Thread{Print: func(_ *starlark.Thread, text string) { fmt.Fprintln(os.Stderr, text) }}
	thread.SetMaxExecutionSteps(s.limits.steps)
	defer context.AfterFunc(ctx, func() { thread.Cancel("the context has ended") })()
	defer func() {
		if p := recover(); p != nil { // Go panics at lengths beyond any memory, such as list(range(1 << 62))
			err = fmt.Errorf("%s: the interpreter panicked: %s", s.name, firstAndLast(fmt.Sprint(p)))
		}
	}()
	err = body(thread)
	switch {
	case err == nil:
		return nil
	case thread.ExecutionSteps() >= s.limits.steps:
		return fmt.Errorf("%s: took more than max_steps = %d steps for one group: raise max_steps, or make the script end",
			s.name, s.limits.steps)
	case ctx.Err() != nil:
		return context.Cause(ctx)
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
