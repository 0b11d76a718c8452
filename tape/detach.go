package tape

import (
	"fmt"
	"slices"
)

// Detach is s as a constant: the stop-gradient sg(s).
func (s Stream) Detach() Stream {
	t, in := s.tape, s.node()
	out := t.add(node{kind: leaf, shape: in.shape, a: -1, b: -1}, len(in.value))
	copy(out.Value(), t.constant(s.Value()))
	t.detached = append(t.detached, out.id)
	return out
}

// constant is what the next Detach gives.
func (t *Tape) constant(v []float64) []float64 {
	if t.held == nil {
		return v
	}
	if i := len(t.detached); i < len(t.held) && len(t.held[i]) == len(v) {
		return t.held[i]
	}
	panic(fmt.Sprintf("tape: Detach %d of another expression than the one whose values are held", len(t.detached)))
}

// Detached returns what Detach gave since Reset, in the order of calls.
func (t *Tape) Detached() [][]float64 {
	out := make([][]float64, 0, len(t.detached))
	for _, id := range t.detached {
		out = append(out, slices.Clone(t.nodes[id].value))
	}
	return out
}

// Hold makes Detach give these values, in the order of calls, whatever its stream holds; nil ends it. The same expression over other variables
// is then the function that Backward differentiates, with every stop-gradient a constant, so that differences of it can be held against Grad.
func (t *Tape) Hold(detached [][]float64) { t.held = detached }
