package cpu

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// teacherBudget is the memory in bytes for logits of a teacher. It holds whole rows, so that one
// product with the teacher's head gives normaliser and divergence; longer sequences do not need
// more of them.
const teacherBudget = 64 << 20

// comparison is the part of the head that compares distributions with the teachers' distributions.
type comparison struct {
	width      int // hidden size of the widest teacher; 0 without teachers
	rank       int // largest rank of the adapters of teachers' heads
	budget     int // bytes of a teacher's logits
	teachers   map[string]*Engine
	divergence kernel.Divergence // for the current batch; nil for none
	comparisonSpace
}

// comparisonSpace is the memory of a comparison, one row per head row; empty without teachers.
type comparisonSpace struct {
	states   kernel.Matrix // [rows, width] normed last hidden states of the row's teacher; it may fill fewer columns
	slab     kernel.Matrix // [as many rows as the budget holds, V] logits of a teacher
	low      lowSpace      // of the adapter of a teacher's head
	lse      []float32     // [rows] of the teacher
	values   []float32     // [rows] divergences, nats
	inner    []float32     // [rows] see kernel.Divergences
	gradient []float32     // [rows] of the loss by the divergence
}

// take takes the memory for so many rows, if there are teachers.
func (c *comparison) take(t *kernel.Taker, rows, vocabulary int) {
	c.comparisonSpace = comparisonSpace{}
	if c.width == 0 {
		return
	}
	c.states = t.Matrix(rows, c.width)
	c.slab = t.Matrix(min(rows, max(1, c.budget/(4*vocabulary))), vocabulary)
	c.low.values = t.Float32(c.slab.Rows * c.rank)
	for _, v := range []*[]float32{&c.lse, &c.values, &c.inner, &c.gradient} {
		*v = t.Float32(rows)
	}
}

// divergenceOf returns the kernel of a divergence; nil for none.
func divergenceOf(d trinity.Divergence) (kernel.Divergence, error) {
	switch d.Kind {
	case "":
		return nil, nil
	case trinity.ForwardKL:
		return kernel.ForwardKL{}, nil
	case trinity.ReverseKL:
		return kernel.ReverseKL{}, nil
	case trinity.JSD:
		if !(d.Beta > 0 && d.Beta < 1) {
			return nil, fmt.Errorf("cpu: beta of the divergence %s is %v; expected more than 0 and less than 1", d.Kind, d.Beta)
		}
		return kernel.JSD{Beta: d.Beta}, nil
	}
	return nil, fmt.Errorf("cpu: divergence %q; expected %s, %s or %s", d.Kind, trinity.ForwardKL, trinity.ReverseKL, trinity.JSD)
}

// loadStates fills the teachers' hidden states for every head row of p, which batch was packed
// into.
func (c *comparison) loadStates(ctx context.Context, batch []*trinity.Experience, p *packing) error {
	pupils := map[*Engine][]int{}
	for i, x := range batch {
		t := c.teachers[x.Teacher]
		if t == nil {
			return fmt.Errorf("cpu: experience %s names teacher %q; the engine has the teachers %q", x.ID, x.Teacher, slices.Sorted(maps.Keys(c.teachers)))
		}
		pupils[t] = append(pupils[t], i)
	}
	rows := map[[2]int]int{} // by experience and position
	for _, u := range p.uses {
		rows[[2]int{u.experience, u.position}] = u.head
	}
	for t, mine := range pupils {
		xs := make([]*trinity.Experience, len(mine))
		for i, x := range mine {
			xs[i] = batch[x]
		}
		err := t.normedStates(ctx, xs, func(x, position int, normed []float32) {
			copy(c.states.Row(rows[[2]int{mine[x], position}]), normed)
		})
		if err != nil {
			return fmt.Errorf("cpu: teacher %q: %w", xs[0].Teacher, err)
		}
	}
	return nil
}

// compareRows computes the divergences of head rows [from, to) from their logits.
func (h *head) compareRows(p *packing, logits kernel.Matrix, from, to int) {
	c, lse := &h.compare, h.space.lse
	h.eachSlab(p, from, to, func(at, end int, teacher kernel.Matrix) {
		student := logits.RowRange(at-from, end-from)
		kernel.LogitStats(h.pool, teacher, nil, c.lse[at:end], nil, nil)
		kernel.Divergences(h.pool, c.divergence, student, teacher, lse[at:end], c.lse[at:end], c.values[at:end], c.inner[at:end])
	})
}

// backCompare replaces the logits of head rows [from, to) by the gradient of the loss with respect
// to them: the part of the divergence plus the part of the other streams.
func (h *head) backCompare(p *packing, logits kernel.Matrix, from, to int) {
	c, lse := &h.compare, h.space.lse
	h.eachSlab(p, from, to, func(at, end int, teacher kernel.Matrix) {
		part := logits.RowRange(at-from, end-from)
		kernel.DivergenceBackward(h.pool, c.divergence, part, teacher, lse[at:end], c.lse[at:end], c.inner[at:end], c.gradient[at:end])
		h.backStats(p, part, at, end)
		eachRow(h.pool, end-at, func(i int) { kernel.AddTo(part.Row(i), teacher.Row(i)) })
	})
}

// eachSlab calls do with the teacher's logits of head rows [at, end), divided by their
// temperatures, until it has covered [from, to). A slab has one teacher and as many rows as fit the
// memory.
func (h *head) eachSlab(p *packing, from, to int, do func(at, end int, teacher kernel.Matrix)) {
	c := &h.compare
	for at, end := from, from; at < to; at = end {
		t := c.teachers[p.head[at].teacher]
		for end < to && end-at < c.slab.Rows && c.teachers[p.head[end].teacher] == t {
			end++
		}
		logits := c.slab.RowRange(0, end-at)
		head, states := &t.weights.head, c.states.RowRange(at, end).ColRange(0, t.cfg.HiddenSize)
		kernel.MatMul(h.pool, logits, states, head.weight.RowRange(0, h.cfg.VocabSize).T(), false)
		if head.down.Rows > 0 {
			kernel.MatMul(h.pool, logits, head.project(h.pool, c.low, states), head.up[0].b.RowRange(0, h.cfg.VocabSize).T(), true)
		}
		scaleLogits(h.pool, t.cfg, logits)
		applyTemperature(h.pool, logits, p.head[at:end])
		do(at, end, logits)
	}
}
