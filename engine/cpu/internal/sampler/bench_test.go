package sampler

import (
	"fmt"
	"os"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// The benchmarks take SmolLM2-135M from TRINITY_SMOLLM2_GGUF.
func smol(b *testing.B, storage kernel.Storage) *Sampler {
	path := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if path == "" {
		b.Skip("TRINITY_SMOLLM2_GGUF is not set")
	}
	pool := kernel.NewPool(0)
	b.Cleanup(pool.Close)
	return start(b, open(b, path), Options{Pool: pool, Storage: storage, MaxSequences: 64, MaxTokens: 16384, MaxModelLen: 2052})
}

var storages = map[string]kernel.Storage{"f32": kernel.F32, "bf16": kernel.BF16, "int8": kernel.Int8}

// question returns n tokens that differ early from the tokens for another number.
func question(n, number int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(1000 + (number*7919+i*104729)%40000)
	}
	return tokens
}

// BenchmarkDecode samples 64 tokens after 150, the prompt's K/V at hand.
func BenchmarkDecode(b *testing.B) {
	for name, storage := range storages {
		s := smol(b, storage)
		for _, n := range []int{1, 8, 32, 64} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				const tokens = 64
				run := func(tokens, seed int) {
					sample(b, s, question(150, 0), trinity.SamplingParams{N: n, Temperature: 1, MaxTokens: tokens, Seed: uint64(seed), IgnoreEOS: true})
				}
				run(1, 0)
				b.ResetTimer()
				for i := range b.N {
					run(tokens, i)
				}
				b.ReportMetric(float64(b.N*n*tokens)/b.Elapsed().Seconds(), "tok/s")
			})
		}
		s.Close()
	}
}

// BenchmarkScore computes a prompt of 2,048 tokens, without and with the log-probabilities of its tokens.
func BenchmarkScore(b *testing.B) {
	s := smol(b, kernel.F32)
	number := 0
	for _, score := range []bool{false, true} {
		b.Run(fmt.Sprintf("score=%v", score), func(b *testing.B) {
			for range b.N {
				number++
				sample(b, s, question(2048, number), trinity.SamplingParams{MaxTokens: 1, ScorePrompt: score})
			}
		})
	}
}

// BenchmarkPrefill computes prompts of 150 tokens, 16 at a time, and draws a token of each.
func BenchmarkPrefill(b *testing.B) {
	for name, storage := range storages {
		s := smol(b, storage)
		b.Run(name, func(b *testing.B) {
			const prompts, length = 16, 150
			number := 0
			for range b.N {
				done := make(chan bool)
				for range prompts {
					number++
					go func(tokens []int32) {
						sample(b, s, tokens, trinity.SamplingParams{MaxTokens: 1})
						done <- true
					}(question(length, number))
				}
				for range prompts {
					<-done
				}
			}
			b.ReportMetric(float64(b.N*prompts*length)/b.Elapsed().Seconds(), "tok/s")
		})
		s.Close()
	}
}

// BenchmarkDraw draws from 49152 logits, a few of them far above the rest as a language model's
// are.
func BenchmarkDraw(b *testing.B) {
	logits := randomLogits(49152, 2)
	for i := range 40 {
		logits[i*1000] = 15 - 0.1*float32(i)
	}
	d := newDrawer(len(logits))
	for name, q := range map[string]query{
		"greedy":      {topP: 1, penalty: 1},
		"plain":       {temperature: 1, topP: 1, penalty: 1},
		"temperature": {temperature: 0.7, topP: 1, penalty: 1},
		"top-k":       {temperature: 1, topP: 1, topK: 50, penalty: 1},
		"top-p":       {temperature: 1, topP: 0.95, penalty: 1},
		"min-p":       {temperature: 1, topP: 1, minP: 0.05, penalty: 1},
	} {
		b.Run(name, func(b *testing.B) {
			for i := range b.N {
				q.u = uniform(1, 0, i, ofCompletion)
				d.draw(logits, &q)
			}
		})
	}
}
