package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// eachSet runs a test with every kernel set of this processor, and, without -short, with the
// interpreted text of the AVX-512 set.
func eachSet(t *testing.T, test func(t *testing.T)) {
	defer active.Store(current())
	tested := sets
	if !testing.Short() {
		tested = append([]*kernels{interpreted(t)}, sets...)
	}
	for _, set := range tested {
		active.Store(set)
		t.Run(set.name, test)
	}
}

// random is n values of a standard normal distribution.
func random(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// randomMatrix is a [rows, cols] matrix with slack columns between rows.
func randomMatrix(r *rand.Rand, rows, cols, slack int) Matrix {
	m := NewMatrix(random(r, rows*(cols+slack)), rows, cols)
	m.Stride = cols + slack
	return m
}

// clone copies m with its slack.
func clone(m Matrix) Matrix {
	m.Data = append([]float32(nil), m.Data...)
	return m
}

// at is element (i, j) in float64, transposed matrices included.
func at(m Matrix, i, j int) float64 {
	if m.trans {
		i, j = j, i
	}
	return float64(m.Data[i*m.Stride+j])
}

// sameBits fails unless a and b are equal bit for bit.
func sameBits(t *testing.T, what string, a, b []float32) {
	t.Helper()
	if len(a) != len(b) {
		t.Fatalf("%s: %d and %d elements", what, len(a), len(b))
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			t.Fatalf("%s: element %d: %v (%#08x) and %v (%#08x)", what, i, a[i], math.Float32bits(a[i]), b[i], math.Float32bits(b[i]))
		}
	}
}

// near fails unless got is within tol·(1 + |want|) of want.
func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*(1+math.Abs(want))) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}
