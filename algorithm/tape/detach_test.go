package tape

import "testing"

// With a constant stop-gradient, differences of x²·sg(x) at 3 have Backward's slope 2·3·3, and not
// the slope 27 of x³.
func TestHoldKeepsStopGradientsConstant(t *testing.T) {
	var tp Tape
	at := func(x float64) Stream {
		tp.Reset([]int{1})
		v := tp.Variable([]float64{x})
		return v.Square().Mul(v.Detach()).Sum(nil)
	}
	slope := func() float64 {
		const h = 1e-4
		return (at(3+h).Scalar() - at(3-h).Scalar()) / (2 * h)
	}
	at(3)
	tp.Hold(tp.Detached())
	if got := slope(); !near([]float64{got}, []float64{18}, 1e-6) {
		t.Errorf("held: slope %v, want 18", got)
	}
	tp.Hold(nil)
	if got := slope(); !near([]float64{got}, []float64{27}, 1e-6) {
		t.Errorf("not held: slope %v, want 27", got)
	}
}

func TestHoldNeedsTheSameExpression(t *testing.T) {
	var tp Tape
	tp.Reset([]int{2})
	tp.Hold([][]float64{{1, 2}})
	tp.Variable([]float64{3, 4}).Detach()
	defer func() {
		if recover() == nil {
			t.Error("a second Detach had no value to give, and gave one")
		}
	}()
	tp.Variable([]float64{3, 4}).Detach()
}
