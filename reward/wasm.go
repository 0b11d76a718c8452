package reward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/internal/wire/score"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("wasm",
		"The reward that a WebAssembly module gives, on every system. The module is a WASI program (preview 1, as Go, Rust and C compile "+
			"it): it starts anew for each reply, reads one question from its standard input and writes one answer to its standard output. "+
			wireForm+"The module has no files, no network, no environment, and a clock and random numbers that are the same at each start, so "+
			"the same question has the same answer. Its standard error is in the reason of a failure. Parts: those of the module.",
		func() trinity.RewardFunc { return &wasmReward{Timeout: 10, MaxMemory: 256} })
}

// wasmReward runs a module.
type wasmReward struct {
	Module    string  `yaml:"module" required:"name a file, such as score.wasm" doc:"file of the module, as a path from the working directory"`
	Timeout   float64 `yaml:"timeout" range:"(0,inf]" doc:"seconds for one reply"`
	MaxMemory int     `yaml:"max_memory_mb" range:"[1,4096]" doc:"MiB that the module may use for one reply"`
}

// pagesOfMiB is the number of WebAssembly's pages in a MiB.
const pagesOfMiB = 16

// Validate checks the arguments.
func (w *wasmReward) Validate() error {
	module, err := w.compile()
	if err != nil {
		return fmt.Errorf("module: %w", err)
	}
	return module.Close()
}

// Score implements [trinity.RewardFunc]. Tasksets with the same arguments share the compiled module.
func (w *wasmReward) Score(ctx context.Context, in trinity.RewardInput) (r trinity.Reward, err error) {
	if in.Host == nil {
		return r, fmt.Errorf("%s: only a run can start it", w.Module)
	}
	question, err := encode(in)
	if err != nil {
		return r, err
	}
	opened, err := in.Host.Open(fmt.Sprintf("reward wasm %+v", *w), func(io.Writer) (io.Closer, error) { return w.compile() })
	if err != nil {
		return r, fmt.Errorf("module: %w", err)
	}
	text, err := opened.(*wasmModule).answer(ctx, question)
	if err != nil {
		return r, fmt.Errorf("%s: %w", w.Module, err)
	}
	return answerOf(w.Module, text)
}

// wasmModule is a compiled module. Several goroutines may ask it at once.
type wasmModule struct {
	args    *wasmReward
	runtime wazero.Runtime
	code    wazero.CompiledModule
}

func (w *wasmReward) compile() (*wasmModule, error) {
	binary, err := os.ReadFile(w.Module)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	limits := wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithMemoryLimitPages(uint32(w.MaxMemory * pagesOfMiB))
	m := &wasmModule{args: w, runtime: wazero.NewRuntimeWithConfig(ctx, limits)}
	wasi_snapshot_preview1.MustInstantiate(ctx, m.runtime)
	if m.code, err = m.runtime.CompileModule(ctx, binary); err == nil {
		err = isProgram(m.code)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", w.Module, err), m.Close())
	}
	return m, nil
}

// isProgram returns an error unless a module is a WASI program.
func isProgram(code wazero.CompiledModule) error {
	if code.ExportedFunctions()["_start"] == nil {
		return errors.New("it exports no _start: compile a WASI program, for Go with GOOS=wasip1 GOARCH=wasm")
	}
	for _, f := range code.ImportedFunctions() {
		if module, name, _ := f.Import(); module != wasi_snapshot_preview1.ModuleName {
			return fmt.Errorf("it imports %s.%s, and a reward has the functions of %s only", module, name, wasi_snapshot_preview1.ModuleName)
		}
	}
	return nil
}

// Close frees the compiled code.
func (m *wasmModule) Close() error { return m.runtime.Close(context.Background()) }

// answer runs the module on a question, in memory of its own.
func (m *wasmModule) answer(ctx context.Context, question []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait.Seconds(m.args.Timeout), fmt.Errorf("no answer within timeout = %g s", m.args.Timeout))
	defer cancel()
	answer, said := &process.Bounded{Most: score.MaxAnswer}, &process.Ends{}
	streams := wazero.NewModuleConfig().WithName("").WithStdin(bytes.NewReader(question)).WithStdout(answer).WithStderr(said)
	instance, err := m.runtime.InstantiateModule(ctx, m.code, streams)
	switch {
	case answer.Full:
		return nil, fmt.Errorf("its answer has more than %d bytes", answer.Most)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%w; it said: %s", err, said)
	}
	return answer.Text.Bytes(), instance.Close(ctx)
}
