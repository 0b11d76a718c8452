package weights

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
)

const (
	recognisePrompts = 8
	recogniseTokens  = 4   // sampled after each prompt
	strange          = 0.5 // mean |difference| of log-probabilities, in nats; an engine in bf16 has some 0.05
)

// recognise returns an error if a sampler samples with another model than the engine has. It asks for
// a few tokens and compares their log-probabilities.
func recognise(ctx context.Context, engine trinity.Engine, sampler trinity.Sampler) error {
	var batch trinity.Batch
	for i := range recognisePrompts {
		prompt := []int32{int32(i), int32(3 * i % 7), int32(5 * i % 7)} // every vocabulary has them
		p := trinity.SamplingParams{Temperature: 1, MaxTokens: recogniseTokens, Seed: uint64(i), IgnoreEOS: true}
		out, err := sampler.Sample(ctx, trinity.Prompt{Tokens: prompt}, p)
		if err != nil {
			return err
		}
		e := &trinity.Experience{ID: trinity.ExperienceID{Run: i}, PromptLen: len(prompt), Temperature: 1}
		e.Tokens = slices.Concat(prompt, out[0].Tokens)
		e.Mask = append(make([]bool, len(prompt)), slices.Repeat([]bool{true}, len(out[0].Tokens))...)
		e.Logprobs = append(make([]float32, len(prompt)), out[0].Logprobs...)
		batch.Experiences = append(batch.Experiences, e)
	}
	batch.Whole = batch.Experiences
	stats, err := engine.Forward(ctx, &batch, trinity.Streams{})
	if err != nil {
		return err
	}
	sum, n := 0.0, 0
	for i, e := range batch.Experiences {
		for t := e.PromptLen; t < len(e.Tokens); t++ {
			sum += math.Abs(float64(e.Logprobs[t] - stats[i].Logprob[t]))
			n++
		}
	}
	if mean := sum / float64(n); !(mean <= strange) {
		return fmt.Errorf("the servers sample with another model than the run trains: log-probabilities differ by %.2g nats on average: "+
			"start them with model.model_path", mean)
	}
	return nil
}
