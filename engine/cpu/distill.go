package cpu

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

var _ trinity.Distiller = (*Engine)(nil)

// teacherBudget is the memory in bytes of a teacher's logits that are there at once: whole rows, so that one product with the teacher's head
// gives normaliser and divergence, and no more of them however long the sequences are.
const teacherBudget = 64 << 20

// SetTeachers implements trinity.Distiller. A teacher whose hidden states are wider than planned makes memory grow.
func (e *Engine) SetTeachers(teachers map[string]trinity.Engine) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.weights == nil {
		return errClosed
	}
	if e.hasScore() {
		return fmt.Errorf("cpu: a value head has no distribution to compare with a teacher's")
	}
	all, width := map[string]*Engine{}, e.opts.TeacherWidth
	for _, name := range slices.Sorted(maps.Keys(teachers)) {
		t, ok := teachers[name].(*Engine)
		switch {
		case !ok:
			return fmt.Errorf("cpu: teacher %q is a %T: the embedded engine compares with teachers of its own kind", name, teachers[name])
		case t == e:
			return fmt.Errorf("cpu: teacher %q is the engine that is trained: open its model a second time, for forward passes", name)
		case t.hasScore():
			return fmt.Errorf("cpu: teacher %q has no vocabulary projection", name)
		case t.cfg.VocabSize < e.cfg.VocabSize:
			return fmt.Errorf("cpu: teacher %q has a vocabulary of %d, its student one of %d: a teacher must know every token of the student", name, t.cfg.VocabSize, e.cfg.VocabSize)
		}
		all[name], width = t, max(width, t.cfg.HiddenSize)
	}
	e.teachers = all
	if width == e.opts.TeacherWidth {
		return nil
	}
	e.opts.TeacherWidth = width
	return e.headSpace.grow(e, e.headSpace.rows, e.headSpace.kept)
}

// divergenceOf is how the kernels know a divergence; nil for none.
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

// listen fills the teachers' hidden states of every head row. batch is what is packed.
func (e *Engine) listen(ctx context.Context, batch []*trinity.Experience) error {
	h := &e.headSpace
	h.teachers = make([]*Engine, len(batch))
	pupils := map[*Engine][]int{}
	for i, x := range batch {
		t := e.teachers[x.Teacher]
		if t == nil {
			return fmt.Errorf("cpu: experience %s is to be compared with teacher %q, which is none of those that the engine was given (%q)", x.ID, x.Teacher, slices.Sorted(maps.Keys(e.teachers)))
		}
		h.teachers[i] = t
		pupils[t] = append(pupils[t], i)
	}
	rows := map[[2]int32]int{} // by experience and position
	for i, r := range e.packing.head {
		rows[[2]int32{r.experience, r.position}] = i
	}
	for t, mine := range pupils {
		xs := make([]*trinity.Experience, len(mine))
		for i, x := range mine {
			xs[i] = batch[x]
		}
		err := t.lastStates(ctx, xs, func(x int, position int32, normed []float32) {
			copy(h.teacher.Row(rows[[2]int32{int32(mine[x]), position}]), normed)
		})
		if err != nil {
			return fmt.Errorf("cpu: teacher %q: %w", xs[0].Teacher, err)
		}
	}
	return nil
}

// lastStates calls visit with the normed last hidden states [H] that each trained token is predicted from.
func (e *Engine) lastStates(ctx context.Context, batch []*trinity.Experience, visit func(x int, position int32, normed []float32)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.check(&trinity.Batch{Experiences: batch}, trinity.Streams{}); err != nil {
		return err
	}
	done := 0
	return e.eachPart(batch, func(part []*trinity.Experience) error {
		if err := e.states(ctx, e.weights, false); err != nil {
			return err
		}
		for i, r := range e.packing.head {
			visit(done+int(r.experience), r.position, e.headSpace.normed.Row(i))
		}
		done += len(part)
		return nil
	})
}

// compare computes the divergences of head rows [from, to), given their logits.
func (e *Engine) compare(p *packing, logits kernel.Matrix, from, to int) {
	h := &e.headSpace
	e.eachSlab(p, from, to, func(at, end int, teacher kernel.Matrix) {
		kernel.LogitStats(e.pool, teacher, nil, h.teacherLSE[at:end], nil, nil)
		kernel.Divergences(e.pool, e.divergence, logits.RowRange(at-from, end-from), teacher, h.lse[at:end], h.teacherLSE[at:end], h.distance[at:end], h.inner[at:end])
	})
}

// backCompare turns logits of head rows [from, to) into the gradient by them, that of the divergence with that of the other streams.
func (e *Engine) backCompare(p *packing, logits kernel.Matrix, from, to int) {
	h := &e.headSpace
	e.eachSlab(p, from, to, func(at, end int, teacher kernel.Matrix) {
		part := logits.RowRange(at-from, end-from)
		kernel.DivergenceBackward(e.pool, e.divergence, part, teacher, h.lse[at:end], h.teacherLSE[at:end], h.inner[at:end], h.dDistance[at:end])
		e.backStats(part, at, end)
		e.eachRow(end-at, func(i int) { kernel.AddTo(part.Row(i), teacher.Row(i)) })
	})
}

// eachSlab calls do with the teacher's logits of head rows [at, end), divided by their temperatures, until [from, to) is done: as many rows at
// once as have memory and one teacher.
func (e *Engine) eachSlab(p *packing, from, to int, do func(at, end int, teacher kernel.Matrix)) {
	h := &e.headSpace
	for at, end := from, from; at < to; at = end {
		t := h.teachers[p.head[at].experience]
		for end < to && end-at < h.slab.Rows && h.teachers[p.head[end].experience] == t {
			end++
		}
		logits := h.slab.RowRange(0, end-at)
		head := t.weights.head.RowRange(0, e.cfg.VocabSize)
		kernel.MatMul(e.pool, logits, h.teacher.RowRange(at, end).ColRange(0, t.cfg.HiddenSize), head.T(), false)
		e.temper(logits, p.head[at:end])
		do(at, end, logits)
	}
}
