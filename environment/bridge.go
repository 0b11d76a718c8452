package environment

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"

	"github.com/trinity-go/trinity/internal/process"
)

// scripts are the other sides of bridges to Python.
//
//go:embed python/*.py
var scripts embed.FS

// Python are the arguments of bridges to Python.
type Python struct {
	Python    string            `yaml:"python" doc:"interpreter that has the library"`
	Env       map[string]string `yaml:"env" secret:"true" doc:"environment variables besides those of the run"`
	MaxMemory int               `yaml:"max_memory_mb" doc:"MiB of address space for each of its processes (Linux only); 0 sets no limit"`
}

// Validate requires an interpreter that exists.
func (p *Python) Validate() error {
	if _, err := exec.LookPath(p.Python); err != nil {
		return fmt.Errorf("python: %w", err)
	}
	args := p.args(nil)
	return args.Validate()
}

func (p *Python) args(code []byte) process.Args {
	return process.Args{Command: []string{p.Python, "-c", string(code)}, Env: p.Env, MaxMemory: p.MaxMemory}
}

// bridge is a process that an environment asks. It starts with the first question.
type bridge struct {
	pool   *process.Pool
	worker *process.Worker
}

// newBridge returns a bridge to a program whose lines for which isAnswer is true are answers.
func newBridge(ctx context.Context, p process.Program, isAnswer func([]byte) bool) (b *bridge, err error) {
	b = &bridge{pool: process.NewPool(p, 1, process.Lines{Most: 64 << 20, IsAnswer: isAnswer})}
	b.worker, err = b.pool.Take(ctx)
	return b, err
}

// newBridge returns a bridge to a script.
func (p *Python) newBridge(ctx context.Context, script string) (*bridge, error) {
	var code []byte
	for _, name := range []string{"bridge.py", script} {
		part, err := scripts.ReadFile("python/" + name)
		if err != nil {
			return nil, err
		}
		code = append(append(code, part...), '\n')
	}
	args := p.args(code)
	return newBridge(ctx, args.Program(), nil)
}

// ask sends a question, an object with the key do, and reads the answer.
func (b *bridge) ask(ctx context.Context, question map[string]any, answer any) error {
	line, err := json.Marshal(question)
	if err != nil {
		return err
	}
	reply, err := b.worker.Ask(ctx, append(line, '\n'))
	if err != nil {
		return err
	}
	return readAnswer(reply, answer)
}

// readAnswer reads an answer of a script, which may be an error.
func readAnswer(reply []byte, answer any) error {
	failed := struct{ Error string }{}
	if err := json.Unmarshal(reply, &failed); err != nil {
		return fmt.Errorf("the answer %.80q is no JSON object: %w", reply, err)
	}
	if failed.Error != "" {
		return errors.New(failed.Error)
	}
	return json.Unmarshal(reply, answer)
}

// Close ends the process.
func (b *bridge) Close() error {
	if b.worker != nil {
		b.worker.GiveBack()
	}
	return b.pool.Close()
}
