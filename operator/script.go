package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	starjson "go.starlark.net/lib/json"
	starmath "go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// The process of a script has done its work before the rest of the program begins, whichever program it is that has this operator.
func init() {
	if slices.Equal(os.Args, []string{scriptProcess}) {
		if err := runScript(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// player runs a script as it was ordered to.
type player struct {
	order
	out *json.Encoder
}

// runScript loads the script that it is told of and has it edit each group that follows. The script's first error is said, and is the end.
func runScript(in io.Reader, out io.Writer) error {
	orders := json.NewDecoder(in)
	p := player{out: json.NewEncoder(out)}
	if err := orders.Decode(&p.order); err != nil {
		return err
	}
	debug.SetMemoryLimit(int64(p.MaxMemory) << 20 / 4 * 3) // garbage is collected before memory is refused
	debug.SetMaxStack(p.MaxMemory << 20)
	if err := confine(int64(p.MaxMemory) << 20); err != nil {
		return fmt.Errorf("bound its memory: %w", err)
	}
	go endWithParent()
	process, err := p.load()
	for kept := ""; err == nil; {
		if err := p.out.Encode(word{Kept: &kept}); err != nil {
			return err
		}
		var group json.RawMessage
		if err := orders.Decode(&group); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		kept, err = p.call(process, string(group))
	}
	text := &ends{} // a script may put anything into its error
	fmt.Fprint(text, err)
	return p.out.Encode(word{Error: text.String()})
}

// endWithParent ends this process soon after the one that started it: a script may be at work for hours before it has a word to say to nobody.
func endWithParent() {
	parent := os.Getppid()
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			os.Exit(1)
		}
	}
}

// load runs the script's top level and returns its function.
func (p *player) load() (starlark.Callable, error) {
	file, err := (&syntax.FileOptions{}).Parse(p.Name, p.Text, 0)
	if err != nil {
		return nil, err
	}
	if p.Trace {
		file.Stmts = marked(file.Stmts)
	}
	names := starlark.StringDict{"json": starjson.Module, "math": starmath.Module, mark: starlark.NewBuiltin(mark, p.sayLine)}
	program, err := starlark.FileProgram(file, names.Has)
	if err != nil {
		return nil, err
	}
	thread := p.thread()
	globals, err := program.Init(thread, names)
	if err != nil {
		return nil, p.explain(thread, err)
	}
	globals.Freeze() // no group sees what another has left
	process, ok := globals["process"].(starlark.Callable)
	if !ok {
		return nil, fmt.Errorf("%s does not define process(group)", p.Name)
	}
	return process, nil
}

func (p *player) thread() *starlark.Thread {
	thread := &starlark.Thread{Print: func(_ *starlark.Thread, text string) { _ = p.out.Encode(word{Print: &text}) }}
	thread.SetMaxExecutionSteps(p.MaxSteps)
	return thread
}

// call gives the script one group, a JSON list, and returns those that are kept, one JSON object after the other.
func (p *player) call(process starlark.Callable, list string) (string, error) {
	thread := p.thread()
	group, err := starlark.Call(thread, starjson.Module.Members["decode"], starlark.Tuple{starlark.String(list)}, nil)
	if err != nil {
		return "", err
	}
	kept, err := starlark.Call(thread, process, starlark.Tuple{group}, nil)
	if err != nil {
		return "", p.explain(thread, err)
	}
	those, ok := kept.(*starlark.List)
	if !ok {
		return "", fmt.Errorf("process returned %s, want the list of experiences that are kept", kept.Type())
	}
	var text strings.Builder
	for e := range those.Elements() {
		object, err := starlark.Call(thread, starjson.Module.Members["encode"], starlark.Tuple{e}, nil)
		if err != nil {
			return "", err
		}
		text.WriteString(string(object.(starlark.String)))
	}
	return text.String(), nil
}

// explain puts the line of the script before an error, and the limit in place of the interpreter's word for it.
func (p *player) explain(thread *starlark.Thread, err error) error {
	if thread.ExecutionSteps() >= p.MaxSteps {
		return fmt.Errorf("the script took more than %d steps: raise max_steps, or make it end", p.MaxSteps)
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

// mark is a function that a script cannot name.
const mark = "this line"

// marked puts a call of mark before each statement.
func marked(statements []syntax.Stmt) (out []syntax.Stmt) {
	for _, s := range statements {
		switch s := s.(type) {
		case *syntax.DefStmt:
			s.Body = marked(s.Body)
		case *syntax.ForStmt:
			s.Body = marked(s.Body)
		case *syntax.IfStmt:
			s.True, s.False = marked(s.True), marked(s.False)
		}
		at, _ := s.Span()
		call := &syntax.CallExpr{Fn: &syntax.Ident{NamePos: at, Name: mark}, Lparen: at, Rparen: at}
		out = append(out, &syntax.ExprStmt{X: call}, s)
	}
	return out
}

// sayLine is mark: it says the line of its call, whose three steps the script is not charged for.
func (p *player) sayLine(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	thread.Steps -= 3
	return starlark.None, p.out.Encode(word{Line: thread.CallFrame(1).Pos.Line})
}
