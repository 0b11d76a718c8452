package cpu

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// SetTeachers implements trainer.Distiller. A teacher whose hidden states are wider than
// Options.TeacherWidth makes memory grow.
func (e *Engine) SetTeachers(teachers map[string]engine.Trainer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.weights == nil {
		return errClosed
	}
	if e.passes.head.hasScore() {
		return fmt.Errorf("cpu: an engine with a value head has no distribution to compare with a teacher's")
	}
	all, width, rank := map[string]*Engine{}, 0, 0
	for _, name := range slices.Sorted(maps.Keys(teachers)) {
		t, ok := teachers[name].(*Engine)
		switch {
		case !ok:
			return fmt.Errorf("cpu: teacher %q is a %T: this engine compares only with teachers of its own type", name, teachers[name])
		case t.of == e.of: // which computes one pass at a time
			return fmt.Errorf("cpu: teacher %q is the engine that is trained, or shares its base: "+
				"open its model a second time, for forward passes", name)
		case t.passes.head.hasScore():
			return fmt.Errorf("cpu: teacher %q has no vocabulary projection", name)
		case t.cfg.VocabSize < e.cfg.VocabSize:
			return fmt.Errorf("cpu: teacher %q has a vocabulary of %d, its student one of %d: a teacher must know every token of the student", name, t.cfg.VocabSize, e.cfg.VocabSize)
		}
		all[name], width, rank = t, max(width, t.cfg.HiddenSize), max(rank, t.adapters.headRank())
	}
	e.teachers = all
	p, err := e.borrow(context.Background())
	if err != nil {
		return err
	}
	defer e.of.giveBack()
	h := &p.head
	if width <= h.compare.width && rank <= h.compare.rank {
		return nil
	}
	h.compare.width, h.compare.rank = max(width, h.compare.width), max(rank, h.compare.rank)
	return h.grow(h.space.rows, h.space.kept)
}

// normedStates calls visit with the normed last hidden state [H] that predicts each trained token.
func (e *Engine) normedStates(ctx context.Context, batch []*trinity.Experience, visit func(x, position int, normed []float32)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, err := e.borrow(ctx)
	if err != nil {
		return err
	}
	defer e.of.giveBack()
	if err := p.check(batch, trinity.Streams{}); err != nil {
		return err
	}
	done := 0
	return p.eachPart(batch, func(part []*trinity.Experience) error {
		if err := p.states(ctx, e.weights, false); err != nil {
			return err
		}
		for _, u := range p.packing.uses {
			visit(done+u.experience, u.position, p.head.space.normed.Row(u.head))
		}
		done += len(part)
		return nil
	})
}
