package tape

import (
	"fmt"
	"slices"
)

// Detach returns s as a constant: the stop-gradient sg(s).
func (s Stream) Detach() Stream {
	t, in := s.tape, s.node()
	out := t.add(node{kind: leaf, shape: in.shape, a: -1, b: -1}, len(in.value))
	copy(out.Value(), t.constant(s.Value()))
	t.detached = append(t.detached, out.id)
	return out
}

// constant returns the values of the next detached stream: v, or the values that Hold has set.
func (t *Tape) constant(v []float64) []float64 {
	if t.held == nil {
		return v
	}
	if i := len(t.detached); i < len(t.held) && len(t.held[i]) == len(v) {
		return t.held[i]
	}
	panic(fmt.Sprintf("tape: Detach %d: the expression differs from the one whose values Hold was given", len(t.detached)))
}

// Detached returns the values of all streams that Detach returned since Reset, in the order of the
// calls.
func (t *Tape) Detached() [][]float64 {
	out := make([][]float64, 0, len(t.detached))
	for _, id := range t.detached {
		out = append(out, slices.Clone(t.nodes[id].value))
	}
	return out
}

// Hold makes Detach return these values, in the order of calls, instead of its stream's; nil ends
// it. The same expression over other variables is then the function that Backward differentiates,
// because every stop-gradient stays constant. A test can compare its finite differences with Grad.
func (t *Tape) Hold(detached [][]float64) { t.held = detached }
