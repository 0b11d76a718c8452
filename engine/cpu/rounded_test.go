package cpu

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/trinitytest"
)

// divergence is KL(sampler ‖ trainer) in nats per token, estimated by k3 on what the sampler drew,
// and the largest difference of a logprob.
func divergence(t *testing.T, spec engine.SamplerSpec, prompt []int32) (kl, worst float64) {
	t.Helper()
	ctx := context.Background()
	e, err := trainerPlugin{}.OpenTrainer(ctx, engine.TrainerSpec{ModelPath: spec.ModelPath, MaxModelLen: len(prompt) + 20, MicroTokens: 256})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	spec.MaxSequences, spec.MaxModelLen, spec.Shared, spec.Beside = 4, len(prompt)+20, true, e
	s, err := samplerPlugin{}.OpenSampler(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.(interface{ Close() error }).Close()
	group := rollouts(t, s, prompt)
	stats, err := e.Forward(ctx, whole(group), trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, x := range group {
		for j, trained := range x.Mask {
			if trained {
				d := float64(stats[i].Logprob[j] - x.Logprobs[j])
				kl += math.Exp(d) - 1 - d
				worst = max(worst, math.Abs(d))
				n++
			}
		}
	}
	return kl / float64(n), worst
}

// A sampler of rounded weights draws from nearly the trainer's policy, and not from exactly it.
func TestRoundedWeightsSampleCloseToThePolicy(t *testing.T) {
	for quantization, most := range map[string]float64{"bf16": 1e-3, "int8": 1e-2} {
		for _, name := range slices.Concat([]string{"llama", "llama3_bias_tied", "qwen3", "mistral", "qwen3_moe"}, newer) {
			if quantization == "int8" && name == "qwen3_moe" {
				continue // a token may go to another expert
			}
			kl, worst := divergence(t, engine.SamplerSpec{ModelPath: tiny(name).ModelPath, Quantization: quantization}, sequences(t, true)[0].Tokens[:6])
			t.Logf("%s, %s: KL %.2g nats per token, worst logprob %.2g nats off", quantization, name, kl, worst)
			if worst == 0 || kl > most || worst > 0.5 {
				t.Errorf("%s, %s: KL %.2g nats per token, worst logprob %.2g nats off", quantization, name, kl, worst)
			}
		}
	}
	if _, err := (samplerPlugin{}).OpenSampler(context.Background(), engine.SamplerSpec{ModelPath: tiny("llama").ModelPath, Quantization: "fp8"}); err == nil {
		t.Error("quantization fp8 was taken")
	}
}

func TestRoundedSmolLM2(t *testing.T) {
	path := smollm2Path(t)
	trinitytest.TooLong(t, "loads a model of 135 M parameters twice")
	var recorded smollm2
	readJSON(t, "testdata/smollm2.json.gz", &recorded)
	for _, text := range recorded.Texts[:3] {
		prompt := slices.Clip(text.Tokens[:min(len(text.Tokens), 40)])
		for quantization, most := range map[string]float64{"bf16": 1e-3, "int8": 0.1} {
			kl, worst := divergence(t, engine.SamplerSpec{ModelPath: path, Quantization: quantization}, prompt)
			t.Logf("%s: KL %.2g nats per token, worst logprob %.2g nats off", quantization, kl, worst)
			if kl > most {
				t.Errorf("%s: KL %.2g nats per token, worst logprob %.2g nats off", quantization, kl, worst)
			}
		}
	}
}

// scoreErrors are the mean and the largest difference, in nats, between the log-probabilities that a sampler and
// the trainer give the tokens of texts.
func scoreErrors(t *testing.T, spec engine.SamplerSpec, texts [][]int32) (mean, worst float64) {
	t.Helper()
	ctx := context.Background()
	e, err := trainerPlugin{}.OpenTrainer(ctx, engine.TrainerSpec{ModelPath: spec.ModelPath, MaxModelLen: 512, MicroTokens: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	spec.MaxSequences, spec.MaxModelLen, spec.Shared, spec.Beside = 8, 520, true, e
	s, err := samplerPlugin{}.OpenSampler(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.(interface{ Close() error }).Close()
	var batch []*trinity.Experience
	for i, tokens := range texts {
		batch = append(batch, allTrained(i, tokens))
	}
	stats, err := e.Forward(ctx, whole(batch), trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, tokens := range texts {
		out, err := s.Sample(ctx, trinity.Prompt{Tokens: tokens}, trinity.SamplingParams{MaxTokens: 1, ScorePrompt: true})
		if err != nil {
			t.Fatal(err)
		}
		for j, logprob := range out[0].Prompt.Logprobs {
			d := math.Abs(float64(logprob - stats[i].Logprob[j+1]))
			mean, worst, n = mean+d, max(worst, d), n+1
		}
	}
	return mean / float64(n), worst
}

// The numbers of docs/guide/rollouts.md.
func TestRoundedScoresOfSmolLM2(t *testing.T) {
	path := smollm2Path(t)
	trinitytest.TooLong(t, "loads a model of 135 M parameters twice")
	var recorded exact
	readJSON(t, "testdata/smollm2_exact.json.gz", &recorded)
	for quantization, most := range map[string]float64{"": 0, "bf16": 0.015, "int8": 0.18} {
		mean, worst := scoreErrors(t, engine.SamplerSpec{ModelPath: path, Quantization: quantization}, recorded.Sequences)
		t.Logf("%q: mean difference %.4f nats, largest %.3f", quantization, mean, worst)
		if mean > most {
			t.Errorf("%s: the mean difference is %.3g nats, above %.3g", quantization, mean, most)
		}
	}
}
