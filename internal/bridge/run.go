package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
)

// Run is what a run offers a plug-in that asks a class in Python.
type Run struct {
	host   trinity.Host // nil before Open, and in a rehearsal
	opened bool
	said   map[string]bool
}

// Open takes what a run offers; nil in a rehearsal, which starts no program.
func (r *Run) Open(host trinity.Host) { *r = Run{host: host, opened: true, said: map[string]bool{}} }

// Rehearses reports whether nobody is to start Python.
func (r *Run) Rehearses() bool { return r.opened && r.host == nil }

// Ask asks the processes of a section.
func (r *Run) Ask(ctx context.Context, p *Plugins, q Question, answer any) error {
	if r.host == nil {
		return errors.New("only a run can start Python")
	}
	return p.Ask(ctx, r.host, q, answer)
}

// LeftOut says what of the answers of a class is left out, each once.
func (r *Run) LeftOut(class string, what []string) {
	for _, w := range what {
		r.once(fmt.Sprintf("%s: %s, and is left out", class, w))
	}
}

func (r *Run) once(line string) {
	if r.host != nil && !r.said[line] {
		r.said[line] = true
		r.host.Say(line)
	}
}

// Edit returns the groups that the edits of a class leave. It says once if nothing of them is learnt any more.
func (r *Run) Edit(class string, edits *Edits, groups []trinity.Group) ([]trinity.Group, error) {
	had := learnt(groups)
	kept, err := edits.Apply(groups)
	if err != nil {
		return nil, err
	}
	r.LeftOut(class, edits.LeftOut)
	if had && !learnt(kept) {
		r.once(fmt.Sprintf("%s: it leaves no token of a step to train on: it dropped all experiences, or every action_mask is 0", class))
	}
	return kept, nil
}

func learnt(groups []trinity.Group) bool {
	return slices.ContainsFunc(groups, func(g trinity.Group) bool {
		return slices.ContainsFunc(g, func(e *trinity.Experience) bool { return slices.Contains(e.Mask, true) })
	})
}
