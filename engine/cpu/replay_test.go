package cpu

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/engine/cpu/internal/sampler"
	"github.com/trinity-go/trinity/internal/experience"
)

func replayed(name string) Options {
	opts := tiny(name)
	opts.Replay = true
	return opts
}

// given gives each sequence experts as testdata/record_replay.py does: different ones where sequences have the same tokens.
func given(xs []*trinity.Experience, r experience.Routes) []*trinity.Experience {
	for s, x := range xs {
		x.Experts = nil
		for t := range len(x.Tokens) - 1 {
			for l := range r.Layers {
				for j := range r.PerToken {
					x.Experts = r.Append(x.Experts, int32((5*t+3*l+2*s+j)%r.Experts))
				}
			}
		}
	}
	return xs
}

func TestReplayEqualsTransformers(t *testing.T) {
	var want map[string]struct {
		Loss     float64
		Logprobs [][]float64
	}
	readJSON(t, "testdata/replay.json.gz", &want)
	tensor := tensorFile(t, "testdata/replay.safetensors")
	for name, weights := range map[string][]string{
		"qwen3_moe":      {"layers.1.mlp.gate.weight", "layers.0.self_attn.k_proj.weight", "embed_tokens.weight"},
		"qwen3_moe_sums": {"layers.0.mlp.gate.weight", "layers.1.mlp.gate.weight", "layers.0.input_layernorm.weight"},
	} {
		for _, recompute := range []int{0, 1} {
			opts := replayed(name)
			opts.Recompute = recompute
			e := open(t, opts)
			xs := given(sequences(t, true), e.cfg.Mixture.Routes())
			stats, err := e.Forward(context.Background(), whole(xs), trinity.Streams{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range xs {
				if d := worst(stats[i].Logprob, want[name].Logprobs[i]); d > 1e-5 {
					t.Errorf("%s: log-probabilities of sequence %d are %.2g nats off", name, i, d)
				}
			}
			loss, got := e.gradientOf(t, nll{}, whole(xs))
			if d := loss - want[name].Loss; d > 1e-5 || d < -1e-5 {
				t.Errorf("%s: loss %v, want %v", name, loss, want[name].Loss)
			}
			for _, w := range weights {
				if d := difference(e.base.in(got, "model."+w), tensor(name+"."+w)); d > 1e-4 {
					t.Errorf("%s, %d recomputed: gradient by %s is %.2g relative off", name, recompute, w, d)
				}
			}
			m, err := e.OptimStep(context.Background(), adam)
			if changed := m["router/replay_changed"]; err != nil || changed <= 0.2 || changed > 1 {
				t.Errorf("%s: replay has changed %v of the choices, %v", name, changed, err)
			}
		}
	}
}

// A sampler's own experts change no bit of what is trained.
func TestReplayOfOwnExpertsChangesNothing(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"qwen3_moe", "qwen3_moe_sums"} {
		pool := kernel.NewPool(2)
		defer pool.Close()
		opts, free := replayed(name), tiny(name)
		opts.Pool, free.Pool = pool, pool
		opts.Reference, free.Reference = true, true
		e, without := open(t, opts), open(t, free)
		s, err := sampler.New(*e.Config(), sampler.Options{Pool: pool, MaxSequences: 3, MaxModelLen: 64, MaxTokens: 160,
			Routes: true, Drafts: sampler.Automatic})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		e.attach(s)
		if err := publish(ctx, e, 0); err != nil {
			t.Fatal(err)
		}
		prompt := sequences(t, true)[0].Tokens[:6]
		group := rollouts(t, s, prompt)
		for i, c := range sampledAgain(t, s, prompt) { // which finds the prompt
			if err := e.cfg.Mixture.Routes().Check(c.Experts, len(group[i].Tokens)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			group[i].Experts, group[i].Advantages = c.Experts, slices.Repeat([]float32{float32(i) - 1.5}, len(group[i].Tokens))
		}
		stats, err := e.Forward(ctx, whole(group), trinity.Streams{Entropy: true})
		if err != nil {
			t.Fatal(err)
		}
		plain, err := without.Forward(ctx, whole(group), trinity.Streams{Entropy: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range stats {
			if !slices.Equal(stats[i].Logprob, plain[i].Logprob) || !slices.Equal(stats[i].Entropy, plain[i].Entropy) {
				t.Errorf("%s: streams of sequence %d differ", name, i)
			}
		}
		_, got := e.gradientOf(t, nll{}, whole(group))
		_, want := without.gradientOf(t, nll{}, whole(group))
		if !slices.Equal(got, want) {
			t.Errorf("%s: gradients differ", name)
		}
		m, err := e.OptimStep(ctx, adam)
		if changed, ok := m["router/replay_changed"]; err != nil || !ok || changed != 0 {
			t.Errorf("%s: replay of own experts has changed %v of the choices, %v, %v", name, changed, ok, err)
		}
		reference, err := e.Reference(ctx, whole(group))
		if err != nil {
			t.Fatal(err)
		}
		other, err := without.Reference(ctx, whole(group))
		if err != nil {
			t.Fatal(err)
		}
		for i := range reference {
			if !slices.Equal(reference[i].Logprob, other[i].Logprob) {
				t.Errorf("%s: reference of sequence %d differs", name, i)
			}
		}
	}
}

func sampledAgain(t *testing.T, s trinity.Sampler, prompt []int32) []trinity.Completion {
	t.Helper()
	out, err := s.Sample(context.Background(), trinity.Prompt{Tokens: prompt},
		trinity.SamplingParams{N: 4, Temperature: 0.8, MaxTokens: 20, IgnoreEOS: true, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A later turn has the experts that earlier turns had, with those of what follows.
func TestExpertsOfEarlierTurnsStay(t *testing.T) {
	e := open(t, replayed("qwen3_moe"))
	s, err := sampler.New(*e.Config(), sampler.Options{MaxSequences: 2, MaxModelLen: 64, Routes: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e.attach(s)
	if err := publish(context.Background(), e, 0); err != nil {
		t.Fatal(err)
	}
	r := e.cfg.Mixture.Routes()
	known := slices.Repeat([]byte{7, 3}, 4) // of four tokens
	p := trinity.SamplingParams{MaxTokens: 1, IgnoreEOS: true}
	out, err := s.Sample(context.Background(), trinity.Prompt{Tokens: []int32{3, 4, 5, 6, 7, 8, 9}, Experts: known}, p)
	if err != nil {
		t.Fatal(err)
	}
	got := out[0].Experts
	if err := r.Check(got, 8); err != nil || !slices.Equal(got[:len(known)], known) {
		t.Errorf("experts %v, %v; want them to begin with %v", got, err, known)
	}
}

func TestReplayRefuses(t *testing.T) {
	if _, err := Open(replayed("llama")); err == nil || !strings.Contains(err.Error(), "llama has no router that this program knows") {
		t.Errorf("a dense model: %v", err)
	}
	_, err := (samplerPlugin{}).OpenSampler(context.Background(), engine.SamplerSpec{
		ModelPath: filepath.Join("testdata", "llama"), Record: engine.RecordSpec{Routes: true},
	})
	if err == nil || !strings.Contains(err.Error(), "has no router") {
		t.Errorf("a sampler of a dense model: %v", err)
	}
	e := open(t, replayed("qwen3_moe"))
	for want, spoil := range map[string]func(x *trinity.Experience){
		"has no experts":   func(x *trinity.Experience) { x.Experts = nil },
		"its experts take": func(x *trinity.Experience) { x.Experts = x.Experts[1:] },
		"token 2 has expert 8 in layer 0 of those with experts; the model has experts 0 to 7": func(x *trinity.Experience) { x.Experts[4] = 8 },
		"token 0 has expert 0 twice": func(x *trinity.Experience) { x.Experts[1] = x.Experts[0] },
	} {
		xs := given(sequences(t, true), e.cfg.Mixture.Routes())
		spoil(xs[0])
		_, err := e.ForwardBackward(context.Background(), whole(xs), nll{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprint(xs[0].ID)) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
