package tinker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// mortal is a trainer whose worker dies once so many calls have been made; more are errors, too.
type mortal struct {
	engine.Trainer
	left *int // calls of all trainers until a worker dies
	dead bool
}

func (m *mortal) die() error {
	if *m.left--; *m.left == 0 {
		m.dead = true
	}
	if m.dead {
		return &trinity.LostError{Err: errors.New("the worker was killed")}
	}
	return nil
}

func (m *mortal) ForwardBackward(ctx context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	if err := m.die(); err != nil {
		return nil, err
	}
	return m.Trainer.ForwardBackward(ctx, b, loss)
}

func (m *mortal) OptimStep(ctx context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	if err := m.die(); err != nil {
		return nil, err
	}
	return m.Trainer.OptimStep(ctx, p)
}

// Whenever a worker dies, the client gets the bits that it would have got, and notices nothing.
func TestALostTrainerIsReplaced(t *testing.T) {
	const calls = 4 // of two steps
	run := func(left int) (all []float32, said string) {
		var lines []string
		c := serve(t, func(o *Options) {
			o.Say = func(line string) { lines = append(lines, line) }
			open := o.Bases[0].Open
			o.Bases[0].Open = func(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error) {
				e, err := open(ctx, lora, seed)
				return &mortal{Trainer: e, left: &left}, err
			}
		})
		defer c.stop()
		id := c.model(1)
		for step := range 2 {
			logprobs, _ := c.output(c.send(request(id, int32(1+2*step), "cross_entropy", []int32{3, 4, 5, 6}, []int32{5, 6, 7})))
			all = slices.Concat(append([][]float32{all}, logprobs...)...)
			c.must(c.step(id, int32(2+2*step)))
		}
		last, _ := c.output(c.send(request(id, 5, "cross_entropy", []int32{3, 4, 5, 6})))
		return slices.Concat(all, last[0]), strings.Join(lines, "\n")
	}
	want, said := run(-1)
	if strings.Contains(said, "lost") {
		t.Errorf("said %q", said)
	}
	for left := 1; left <= calls+1; left++ {
		got, said := run(left)
		if !slices.Equal(got, want) {
			t.Errorf("a worker that dies in call %d: %v, want %v", left, got, want)
		}
		if strings.Count(said, "the worker was killed") != 1 {
			t.Errorf("a worker that dies in call %d: said %q", left, said)
		}
	}
}
