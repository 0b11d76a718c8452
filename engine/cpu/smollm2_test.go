package cpu

import (
	"context"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/trinitytest"
)

// smollm2 holds the records of testdata/record_smollm2.py.
type smollm2 struct {
	Texts []struct {
		Tokens   []int32
		Logprobs []float64
	}
	Train []int32
}

func smollm2Path(t testing.TB) string {
	path := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if path == "" {
		t.Skip("TRINITY_SMOLLM2_GGUF does not name the GGUF file of SmolLM2-135M-Instruct")
	}
	return path
}

// allTrained returns a sequence whose tokens are all trained except the first.
func allTrained(i int, tokens []int32) *trinity.Experience {
	x := &trinity.Experience{ID: trinity.ExperienceID{Run: i}, Tokens: tokens, Mask: make([]bool, len(tokens)), PromptLen: 1}
	for t := 1; t < len(tokens); t++ {
		x.Mask[t] = true
	}
	return x
}

func TestSmolLM2LogprobsEqualTransformers(t *testing.T) {
	path := smollm2Path(t)
	if testing.Short() {
		t.Skip("loads a model of 135 M parameters")
	}
	var want smollm2
	readJSON(t, "testdata/smollm2.json.gz", &want)
	e := open(t, Options{ModelPath: path, LoRA: &engine.LoRASpec{LoraRank: 1, LoraAlpha: 1, TargetModules: []string{"v_proj"}}, MaxTokens: 256})
	var batch []*trinity.Experience
	for i, text := range want.Texts {
		batch = append(batch, allTrained(i, text.Tokens))
	}
	got, err := e.Forward(context.Background(), whole(batch), trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range want.Texts {
		if d := worst(got[i].Logprob[1:], text.Logprobs); d > 2e-4 {
			t.Errorf("text %d: a logprob is %.2g nats off", i, d)
		} else {
			t.Logf("text %d: worst logprob %.2g nats off", i, d)
		}
	}
}

// gsm8kBatch is 8 rows of 256 tokens and, for each, the token after it.
func gsm8kBatch(t testing.TB) []*trinity.Experience {
	var want smollm2
	readJSON(t, "testdata/smollm2.json.gz", &want)
	var batch []*trinity.Experience
	for i := range 8 {
		batch = append(batch, allTrained(i, want.Train[256*i:256*(i+1)+1]))
	}
	return batch
}

func TestSmolLM2TrainingLossFollowsTorch(t *testing.T) {
	path := smollm2Path(t)
	trinitytest.TooLong(t, "takes a minute and 4 GB")
	e := open(t, Options{ModelPath: path, MaxTokens: 2048})
	batch := gsm8kBatch(t)
	for step, want := range []float64{2.1029, 2.0220, 1.9504, 1.8879, 1.8350, 1.7889} {
		metrics, err := e.ForwardBackward(context.Background(), whole(batch), nll{})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(metrics["loss"]-want) > 1e-4 {
			t.Errorf("step %d: loss %.5f, want %.4f", step, metrics["loss"], want)
		}
		if _, err := e.OptimStep(context.Background(), trinity.OptimParams{LR: 1e-5, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01}); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkSmolLM2Step(b *testing.B) {
	path := smollm2Path(b)
	e := open(b, Options{ModelPath: path, MaxTokens: 2048})
	batch := gsm8kBatch(b)
	for b.Loop() {
		start := time.Now()
		if _, err := e.ForwardBackward(context.Background(), whole(batch), nll{}); err != nil {
			b.Fatal(err)
		}
		computed := time.Since(start)
		if _, err := e.OptimStep(context.Background(), adam); err != nil {
			b.Fatal(err)
		}
		b.Logf("forward and backward %.2f s, step %.2f s, %d cores", computed.Seconds(), (time.Since(start) - computed).Seconds(), runtime.GOMAXPROCS(0))
	}
	b.ReportMetric(2048*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
}

// BenchmarkSmolLM2GRPO is the training part of a GRPO step with LoRA: 4 prompts of 110 tokens, 8
// replies of 64 each, in micro-batches of one group.
func BenchmarkSmolLM2GRPO(b *testing.B) {
	path := smollm2Path(b)
	var recorded smollm2
	readJSON(b, "testdata/smollm2.json.gz", &recorded)
	e := open(b, Options{ModelPath: path, LoRA: &engine.LoRASpec{LoraRank: 16, LoraAlpha: 32}, MaxTokens: 1024})
	var all []*trinity.Experience
	for i := range 32 {
		prompt := recorded.Train[400*(i/8) : 400*(i/8)+110]
		x := allTrained(i, slices.Concat(prompt, recorded.Train[60*i:60*i+64]))
		for t := range prompt {
			x.Mask[t] = false
		}
		all = append(all, x)
	}
	for b.Loop() {
		for group := range slices.Chunk(all, 8) {
			if _, err := e.ForwardBackward(context.Background(), &trinity.Batch{Step: 1, Experiences: group, Whole: all}, nll{}); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := e.OptimStep(context.Background(), adam); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(32*64*float64(b.N)/b.Elapsed().Seconds(), "reply-tok/s")
}
