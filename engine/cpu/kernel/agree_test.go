package kernel

import (
	"slices"
	"testing"
)

func TestChooseRejectsASetWithOtherBits(t *testing.T) {
	defer func(old []*kernels) { sets = old; choose() }(sets)
	broken := portable
	broken.name = "broken"
	broken.axpy = func(y, x *float32, a float32, n int) {
		portable.axpy(y, x, a, n)
		*y++
	}
	sets = append([]*kernels{&broken}, sets...)
	if got := choose(); got == "broken" || !slices.Equal(Rejected(), []string{"broken"}) {
		t.Errorf("chose %s, rejected %v", got, Rejected())
	}
}

func TestAllSetsAgree(t *testing.T) {
	defer choose()
	if choose(); len(Rejected()) > 0 {
		t.Errorf("rejected %v", Rejected())
	}
}
