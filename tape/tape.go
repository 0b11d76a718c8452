// Package tape is reverse-mode automatic differentiation over streams of numbers: one number per token of a micro-batch, one per
// sequence, or a single one. A loss is written as an expression over streams; [Tape.Backward] then gives its derivative by every
// variable. Everything is float64 and nothing depends on the order of goroutines: one Tape belongs to one goroutine.
//
// Mixing shapes (a per-token stream with a per-sequence one) or streams of two tapes is a mistake in the loss, not in its data, and
// panics.
package tape

import "fmt"

// Tape records expressions. The zero Tape is not ready: call Reset.
type Tape struct {
	bounds   []int // [S+1] sequence s owns tokens bounds[s] … bounds[s+1]−1
	nodes    []node
	memory   arena
	detached []int       // ids of what Detach gave, in order
	held     [][]float64 // what Detach is to give; nil for what its stream holds
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
	a, b   int       // operands; b is −1 where there is one
	value  []float64 // y
	grad   []float64 // d(loss)/dy, nil where the loss's derivative by y is not wanted
	da, db []float64 // elementwise: dy/da and dy/db; reduction and dot: da holds the weights
	index  []int     // gather
	varies bool      // depends on a variable
}

// Reset forgets all streams, keeps their memory for the next expressions, and sets the number of tokens of each sequence. Streams, values
// and gradients from before are invalid.
func (t *Tape) Reset(lengths []int) {
	t.bounds = append(t.bounds[:0], 0)
	for s, n := range lengths {
		t.bounds = append(t.bounds, t.bounds[s]+n)
	}
	clear(t.nodes)
	t.nodes, t.detached = t.nodes[:0], t.detached[:0]
	t.memory.reset()
}

// Tokens is N, the number of tokens of all sequences.
func (t *Tape) Tokens() int { return t.bounds[len(t.bounds)-1] }

// Sequences is S.
func (t *Tape) Sequences() int { return len(t.bounds) - 1 }

// Variable is a per-token stream [N] that Backward differentiates by. It copies values.
func (t *Tape) Variable(values []float64) Stream {
	s := t.Constant(values)
	s.node().varies = true
	return s
}

// Constant is a per-token stream [N] without a derivative. It copies values.
func (t *Tape) Constant(values []float64) Stream {
	if len(values) != t.Tokens() {
		panic(fmt.Sprintf("tape: %d values for %d tokens", len(values), t.Tokens()))
	}
	s := t.add(node{kind: leaf, shape: perToken, a: -1, b: -1}, len(values))
	copy(s.node().value, values)
	return s
}

// Fill is a per-token constant [N] with c everywhere.
func (t *Tape) Fill(c float64) Stream {
	s := t.add(node{kind: leaf, shape: perToken, a: -1, b: -1}, t.Tokens())
	for i := range s.Value() {
		s.Value()[i] = c
	}
	return s
}

// Zero is the single number 0, for a term that is switched off.
func (t *Tape) Zero() Stream {
	return t.add(node{kind: leaf, shape: single, a: -1, b: -1}, 1)
}

// Value returns the numbers of the stream; they are the tape's, not to be changed, and valid until Reset.
func (s Stream) Value() []float64 { return s.node().value }

// Scalar is the value of a single number.
func (s Stream) Scalar() float64 {
	if s.node().shape != single {
		panic("tape: Scalar of a " + s.node().shape.String() + " stream")
	}
	return s.Value()[0]
}

// Grad returns the derivative of Backward's loss by each number of the stream; zeros for a variable that the loss does not depend on.
// It is nil before Backward and for streams that depend on no variable.
func (s Stream) Grad() []float64 { return s.node().grad }

func (s Stream) node() *node { return &s.tape.nodes[s.id] }

// add appends a node with a fresh value of n numbers, and says whether it varies from its operands.
func (t *Tape) add(n node, length int) Stream {
	n.value = t.memory.take(length)
	n.varies = (n.a >= 0 && t.nodes[n.a].varies) || (n.b >= 0 && t.nodes[n.b].varies)
	t.nodes = append(t.nodes, n)
	return Stream{tape: t, id: len(t.nodes) - 1}
}
