package reward

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"

	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/sandbox"
	"github.com/trinity-go/trinity/registry"
)

//go:embed grader.py
var graderScript []byte

// maxGrader bounds the bytes of a grader's source, as OpenAI's API does.
const maxGrader = 256 << 10

// pythonGrader calls the function grade(sample, item) of a source in the sandbox.
type pythonGrader struct {
	args   *code
	source string
}

func (g *graderReward) newPythonGrader(s *graderSpec) (*pythonGrader, error) {
	if s.Source == "" || len(s.Source) > maxGrader {
		return nil, errors.New("source: want Python of at most 256 KiB that defines grade(sample, item)")
	}
	c := &code{
		Language: "python", TestsKey: "tests", Timeout: g.Timeout, CompileTimeout: g.Timeout, MaxMemory: g.MaxMemory, Isolation: g.Isolation,
	}
	return &pythonGrader{c, s.Source}, registry.Validate(c)
}

func (p *pythonGrader) grade(ctx context.Context, s *sample) (float64, error) {
	object := s.object()
	var parsed any
	if json.Unmarshal([]byte(s.in.Response), &parsed) == nil {
		object["output_json"] = parsed
	}
	question, err := json.Marshal(map[string]any{"sample": object, "item": s.item()})
	if err != nil {
		return 0, failed("invalid_variable_error", "the row: %v", err)
	}
	program := sandbox.Program{Command: []string{"python3", "grader.py"}, Stdin: question,
		Files: map[string][]byte{"grader.py": graderScript, "source.py": []byte(p.source)}}
	program.Limits.Memory, program.Limits.Output = int64(p.args.MaxMemory)<<20, 1<<20
	r, err := (&codeRun{args: p.args, host: s.in.Host}).run(ctx, program, p.args.Timeout)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, &failure{"python_grader_runtime_error", err}
		}
		if errors.Is(err, context.Cause(ctx)) {
			return 0, err
		}
		return 0, &failure{"python_grader_server_error", err}
	}
	var score *float64
	switch {
	case r.TimedOut:
		return 0, failed("python_grader_runtime_error", "it took more than %g s", p.args.Timeout)
	case r.ExitCode != 0 || r.Truncated || json.Unmarshal(r.Stdout, &score) != nil || score == nil:
		return 0, failed("python_grader_runtime_error", "status %d %s: %s", r.ExitCode, r.Signal, lastLine(r.Stderr))
	}
	return *score, nil
}

// lastLine returns the last line of what a program wrote, as far as people read it.
func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return retry.OneLine(text[bytes.LastIndexByte(text, '\n')+1:])
}
