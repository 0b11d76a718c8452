// Package tape differentiates expressions over streams of numbers: one number per token of a
// micro-batch, one per sequence, or a single one. A loss is an expression over streams.
// [Tape.Backward] computes its derivative by every variable (reverse-mode automatic
// differentiation). All numbers are float64. A Tape belongs to one goroutine, so results do not
// depend on scheduling.
//
// An expression that mixes shapes (per token and per sequence) or the streams of two tapes is a bug
// in the loss, not in its data, and panics.
package tape

import "fmt"

// Tape records expressions. Call Reset before the first use.
type Tape struct {
	bounds   []int // [S+1] sequence s owns tokens bounds[s] … bounds[s+1]−1
	nodes    []node
	memory   arena
	detached []int       // ids of the streams that Detach returned, in order
	held     [][]float64 // the values that Detach returns in place of its stream's; nil for none
}

// Stream is a value on a tape: per token [N], per sequence [S], or a single number [1].
type Stream struct {
	tape *Tape
	id   int
}

type shape uint8

const (
	perToken shape = iota
	perSequence
	gathered // picked from a per-sequence stream
	single
)

func (s shape) String() string {
	return [...]string{"per-token", "per-sequence", "gathered", "single"}[s]
}

type kind uint8

const (
	leaf        kind = iota
	elementwise      // y[i] = f(a[i], b[i])
	reduction        // y[s] = Σ of weight·a over the tokens of sequence s
	dot              // y = Σ weight·a
	spread           // y[t] = a[sequence of t]
	gather           // y[k] = a[index[k]]
)

type node struct {
	kind   kind
	shape  shape
	a, b   int       // operands; b is −1 if there is only one
	value  []float64 // y
	grad   []float64 // d(loss)/dy; nil if nobody needs it
	da, db []float64 // elementwise: dy/da and dy/db; reduction and dot: da holds the weights
	index  []int     // gather
	varies bool      // depends on a variable
}

// Reset discards all streams and sets the number of tokens of each sequence. It keeps the memory
// for the next expressions, so earlier streams, values and gradients become invalid.
func (t *Tape) Reset(lengths []int) {
	t.bounds = append(t.bounds[:0], 0)
	for s, n := range lengths {
		t.bounds = append(t.bounds, t.bounds[s]+n)
	}
	clear(t.nodes)
	t.nodes, t.detached = t.nodes[:0], t.detached[:0]
	t.memory.reset()
}

// Tokens returns N, the number of tokens of all sequences.
func (t *Tape) Tokens() int { return t.bounds[len(t.bounds)-1] }

// Sequences returns S, the number of sequences.
func (t *Tape) Sequences() int { return len(t.bounds) - 1 }

// Variable returns a per-token stream [N] by which Backward differentiates. It copies values.
func (t *Tape) Variable(values []float64) Stream { return t.Constant(values).varying() }

// Constant returns a per-token stream [N] without a derivative. It copies values.
func (t *Tape) Constant(values []float64) Stream {
	if len(values) != t.Tokens() {
		panic(fmt.Sprintf("tape: %d values for %d tokens", len(values), t.Tokens()))
	}
	return t.leaf(perToken, values)
}

// SequenceVariable returns a per-sequence stream [S] by which Backward differentiates. It copies
// values.
func (t *Tape) SequenceVariable(values []float64) Stream { return t.SequenceConstant(values).varying() }

// SequenceConstant returns a per-sequence stream [S] without a derivative. It copies values.
func (t *Tape) SequenceConstant(values []float64) Stream {
	if len(values) != t.Sequences() {
		panic(fmt.Sprintf("tape: %d values for %d sequences", len(values), t.Sequences()))
	}
	return t.leaf(perSequence, values)
}

// leaf returns a constant stream with a copy of values.
func (t *Tape) leaf(form shape, values []float64) Stream {
	s := t.add(node{kind: leaf, shape: form, a: -1, b: -1}, len(values))
	copy(s.node().value, values)
	return s
}

// varying lets Backward differentiate by a constant.
func (s Stream) varying() Stream {
	s.node().varies = true
	return s
}

// Fill returns a per-token constant [N] with c at every token.
func (t *Tape) Fill(c float64) Stream {
	s := t.add(node{kind: leaf, shape: perToken, a: -1, b: -1}, t.Tokens())
	for i := range s.Value() {
		s.Value()[i] = c
	}
	return s
}

// Value returns a single number without a derivative, such as 0 for a term that is switched off.
func (t *Tape) Value(c float64) Stream { return t.leaf(single, []float64{c}) }

// Value returns the numbers of the stream. They belong to the tape: do not change them. They are
// valid until Reset.
func (s Stream) Value() []float64 { return s.node().value }

// Scalar returns the value of a single number.
func (s Stream) Scalar() float64 {
	if s.node().shape != single {
		panic("tape: Scalar of a " + s.node().shape.String() + " stream")
	}
	return s.Value()[0]
}

// Grad returns the derivative of the loss that Backward was given by each number of the stream. It
// is zero for a variable that does not affect the loss, and nil before Backward and for streams
// that depend on no variable.
func (s Stream) Grad() []float64 { return s.node().grad }

func (s Stream) node() *node { return &s.tape.nodes[s.id] }

// add appends a node with n zeros as its value and reports, in the node, whether it depends on a
// variable.
func (t *Tape) add(n node, length int) Stream {
	n.value = t.memory.take(length)
	n.varies = (n.a >= 0 && t.nodes[n.a].varies) || (n.b >= 0 && t.nodes[n.b].varies)
	t.nodes = append(t.nodes, n)
	return Stream{tape: t, id: len(t.nodes) - 1}
}
