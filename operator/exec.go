package operator

import (
	"bytes"
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("exec",
		"Edits a step with a program in any language. The operator starts the program once a step. The "+
			"program reads experiences from its standard input, one JSON object a line, and writes the "+
			"experiences to keep to its standard output. "+
			wireForm+
			" The step ends when the program exits; the operator kills every process that it left running. A "+
			"program that exits with a status other than 0, or does not end in time, ends the run. The error "+
			"quotes the beginning and the end of its standard error. Metrics: filtered_count, "+
			"reward_diff/{mean,max,min}.",
		func() trinity.Operator { return &execOperator{Timeout: 60} })
}

// execOperator runs a program on each step.
type execOperator struct {
	process.Args `yaml:",inline"`
	Timeout      float64 `yaml:"timeout" range:"(0,inf]" doc:"seconds for one step; after that the operator kills all its processes"`
}

// maxAnswer bounds the answer of a program or a server to one step, in bytes.
const maxAnswer = 256 << 20

// Process implements trinity.Operator.
func (x *execOperator) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	lines, err := encode(groups)
	if err != nil || len(lines) == 0 {
		return nil, nil, err
	}
	out, err := x.run(ctx, bytes.Join(lines, nil))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", x, err)
	}
	answers, err := decode(out)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", x, err)
	}
	return edit(groups, lines, answers)
}

// run starts the program with input as its standard input and returns its standard output.
func (x *execOperator) run(ctx context.Context, input []byte) ([]byte, error) {
	late := fmt.Errorf("did not end within timeout = %g s", x.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, wait.Seconds(x.Timeout), late)
	defer cancel()
	program := x.Program()
	return program.Run(ctx, input, maxAnswer)
}
