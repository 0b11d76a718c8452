// Package bridge asks programs that plug-ins start, a JSON object a line. The other side of a bridge
// to Python is a script of the plug-in, which is in this binary.
package bridge

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/registry"
)

// serve defines serve, with which a script answers questions.
//
//go:embed bridge.py
var serve string

// Python are the arguments of bridges to Python.
type Python struct {
	Python    string            `yaml:"python" doc:"interpreter that has the library"`
	Env       map[string]string `yaml:"env" secret:"true" doc:"environment variables besides those of the run"`
	MaxMemory int               `yaml:"max_memory_mb" range:"[0,)" doc:"MiB of address space for each of its processes (Linux only); 0: none"`
}

// Has returns an error unless the interpreter exists and finds a module.
func (p *Python) Has(module string) error {
	if _, err := exec.LookPath(p.Python); err != nil {
		return fmt.Errorf("python: %w", err)
	}
	args := p.args("import importlib.util, sys; sys.exit(importlib.util.find_spec('" + module + "') is None)")
	if err := registry.Validate(&args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	program := args.Program()
	if _, err := program.Run(ctx, nil, 1<<20); err != nil {
		return fmt.Errorf("python: %s has no module %s: install it there, or name another interpreter (%w)", p.Python, module, err)
	}
	return nil
}

// patience bounds the search for a module.
const patience = 30 * time.Second

func (p *Python) args(code string) process.Args {
	return process.Args{Command: []string{p.Python, "-c", code}, Env: p.Env, MaxMemory: p.MaxMemory}
}

// Open returns a bridge to processes that run a script.
func (p *Python) Open(script string, workers int) *Bridge {
	args := p.args(serve + "\n" + script)
	return New(args.Program(), workers, nil)
}

// Bridge is one process, or several with equal rights, that answer questions. Each starts with its
// first question.
type Bridge struct{ pool *process.Pool }

// New returns a bridge to a program whose lines for which isAnswer is true are answers; with nil all
// are.
func New(p process.Program, workers int, isAnswer func([]byte) bool) *Bridge {
	return &Bridge{process.NewPool(p, workers, process.Lines{Most: 64 << 20, IsAnswer: isAnswer})}
}

// AskLine sends a line to an idle process and returns the line that it answers.
func (b *Bridge) AskLine(ctx context.Context, line []byte) ([]byte, error) {
	worker, err := b.pool.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer worker.GiveBack()
	return worker.Ask(ctx, line)
}

// Call sends a question, an object with the key do, and decodes the answer.
func (b *Bridge) Call(ctx context.Context, question map[string]any, answer any) error {
	line, err := json.Marshal(question)
	if err != nil {
		return err
	}
	reply, err := b.AskLine(ctx, append(line, '\n'))
	if err != nil {
		return err
	}
	return Decode(reply, answer)
}

// Decode reads an answer of a script. One with the key error is an error.
func Decode(reply []byte, answer any) error {
	failed := struct{ Error string }{}
	if err := json.Unmarshal(reply, &failed); err != nil {
		return fmt.Errorf("the answer %.80q is no JSON object: %w", reply, err)
	}
	if failed.Error != "" {
		return errors.New(failed.Error)
	}
	return json.Unmarshal(reply, answer)
}

// Close ends the processes.
func (b *Bridge) Close() error { return b.pool.Close() }
