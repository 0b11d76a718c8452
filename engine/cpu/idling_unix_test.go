//go:build unix

package cpu

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// TestIdleUsesNoProcessor: between two steps, and when nothing is asked for, an engine with its
// sampler takes less than 1 % of a core.
func TestIdleUsesNoProcessor(t *testing.T) {
	ctx := context.Background()
	trainer, err := trainerPlugin{}.OpenTrainer(ctx, engine.TrainerSpec{ModelPath: tiny("llama").ModelPath, Train: true, MicroTokens: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	sampler, err := samplerPlugin{}.OpenSampler(ctx, engine.SamplerSpec{ModelPath: tiny("llama").ModelPath, MaxSequences: 4, Shared: true, Beside: trainer})
	if err != nil {
		t.Fatal(err)
	}
	batch := whole(sequences(t, false))
	if _, err := sampler.Sample(ctx, trinity.Prompt{Tokens: []int32{3, 4}}, trinity.SamplingParams{MaxTokens: 8, Temperature: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := trainer.ForwardBackward(ctx, batch, nll{}); err != nil {
		t.Fatal(err)
	}
	const window = time.Second
	least := window
	for range 3 { // the runtime's own work, such as a collection, may fall into one of them
		before := processorTime(t)
		time.Sleep(window)
		least = min(least, processorTime(t)-before)
		if least < window/100 {
			break
		}
	}
	if least >= window/100 {
		t.Errorf("%v of processor time in %v of waiting", least, window)
	}
	if _, err := trainer.OptimStep(ctx, trinity.OptimParams{LR: 1e-3, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}); err != nil {
		t.Fatal(err)
	}
}

// processorTime returns the processor time of this process so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
