package cpu

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestAdamWEqualsTorch(t *testing.T) {
	var want struct {
		LR, Beta1, Beta2, Eps, Clip float64
		WeightDecay                 float64 `json:"weight_decay"`
		Start                       []float32
		Steps                       []struct {
			Grad, After []float32
			Norm        float64
		}
	}
	readJSON(t, "testdata/adamw.json.gz", &want)
	e := open(t, tiny("llama"))
	start := make([]float32, e.base.size)
	n := copy(start, want.Start)
	e.setRowMajor(start)
	p := trinity.OptimParams{LR: want.LR, Beta1: want.Beta1, Beta2: want.Beta2, Eps: want.Eps, WeightDecay: want.WeightDecay, ClipNorm: want.Clip}
	for i, step := range want.Steps {
		copy(e.gradient, step.Grad)
		metrics, err := e.OptimStep(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if d := math.Abs(metrics["grad_norm"]/step.Norm - 1); d > 1e-6 {
			t.Errorf("step %d: grad_norm is %.9g, want %.9g", i+1, metrics["grad_norm"], step.Norm)
		}
		if d := difference(e.rowMajor()[:n], step.After); d > 1e-6 {
			t.Errorf("step %d: weights are %.2g relative off", i+1, d)
		}
		if norm(e.rowMajor()[n:]) != 0 {
			t.Errorf("step %d: weights without gradient moved", i+1)
		}
		if norm(e.gradient) != 0 {
			t.Errorf("step %d: the gradient was not cleared", i+1)
		}
	}
}

func norm(v []float32) float64 {
	n := 0.0
	for _, x := range v {
		n += float64(x) * float64(x)
	}
	return n
}

func TestOptimStepRefusesNonFiniteGradients(t *testing.T) {
	e := open(t, tiny("llama"))
	e.gradient[3] = float32(math.NaN())
	before := e.trained[0]
	if _, err := e.OptimStep(context.Background(), adam); err == nil || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("error is %v", err)
	}
	if e.trained[0] != before || e.steps != 0 {
		t.Error("the step was made nevertheless")
	}
	if _, err := e.OptimStep(context.Background(), trinity.OptimParams{LR: -1}); err == nil {
		t.Error("a negative learning rate was accepted")
	}
}
