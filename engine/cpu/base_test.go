package cpu

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestIsABase(t *testing.T) {
	for _, name := range []string{"qwen2", "qwen3_moe"} {
		t.Run(name, func(t *testing.T) {
			trinitytest.Base(t, trainerPlugin{}, engine.TrainerSpec{
				ModelPath: filepath.Join("testdata", name), Train: true, Ahead: true, MicroTokens: 20, MaxModelLen: 48,
			})
		})
	}
}

// bytesOf returns what a plan adds up to, but for what is released again.
func bytesOf(parts []engine.MemoryPart) (sum int64) {
	for _, p := range parts {
		if !p.Passing {
			sum += p.Bytes
		}
	}
	return sum
}

func tenantOf(t *testing.T, b *base, rank int) *Engine {
	t.Helper()
	e, err := b.Tenant(t.Context(), &engine.LoRASpec{LoraRank: rank, LoraAlpha: 8, TargetModules: []string{"all-linear"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*Engine)
}

// A tenant takes what is planned, and gives it back. What all share grows with the rank alone.
func TestTenantsTakeTheirPlan(t *testing.T) {
	opts := tiny("qwen2")
	opts.MaxTokens = 300
	b, err := openShared(opts)
	if err != nil {
		t.Fatal(err)
	}
	shared := func() (n int64) {
		for _, a := range b.passes.arenas() {
			n += a.Bytes()
		}
		return n
	}
	planned, err := planShared(b.cfg, b.opts)
	if err != nil || !slices.Equal(planned.memory.parts, b.memory.parts) {
		t.Fatalf("planned %+v, taken %+v, %v", planned.memory.parts, b.memory.parts, err)
	}
	var open []*Engine
	for _, rank := range []int{2, 4, 3, 4} {
		parts, err := b.PlanTenant(&engine.LoRASpec{LoraRank: rank, LoraAlpha: 8, TargetModules: []string{"all-linear"}})
		if err != nil {
			t.Fatal(err)
		}
		before := shared()
		e := tenantOf(t, b, rank)
		open = append(open, e)
		took := e.memory.arena.Bytes() + shared() - before
		if want := bytesOf(parts); max(took-want, want-took) > 64*8 { // arrays begin on whole cache lines
			t.Errorf("rank %d took %d bytes, planned were %+v", rank, took, parts)
		}
		if grew := shared() > before; grew != (rank > 3 && len(open) == 2 || len(open) == 1) {
			t.Errorf("tenant %d of rank %d: the shared memory grew: %t", len(open), rank, grew)
		}
	}
	before := shared()
	for _, e := range open {
		train(t, e, sequences(t, true), 1)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if n := e.memory.arena.Bytes(); n != 0 {
			t.Errorf("a closed tenant has %d bytes", n)
		}
	}
	if shared() != before {
		t.Errorf("passes within the plan took %d bytes more", shared()-before)
	}
	if err := b.Close(); err != nil || shared() != 0 || len(inUse) != 0 {
		t.Errorf("a closed base has %d bytes and %d copies of weights, %v", shared(), len(inUse), err)
	}
}

// A tenant is no teacher of another one, for whose pass it would wait.
func TestATenantTeachesNoOther(t *testing.T) {
	b, err := openShared(tiny("qwen2"))
	if err != nil {
		t.Fatal(err)
	}
	one, other := tenantOf(t, b, 2), tenantOf(t, b, 2)
	if one.SetTeachers(map[string]engine.Trainer{"x": other}) == nil {
		t.Error("a tenant teaches another one")
	}
	frozen := tiny("qwen2")
	frozen.ForwardOnly = true
	if err := one.SetTeachers(map[string]engine.Trainer{"x": open(t, frozen)}); err != nil {
		t.Fatal(err)
	}
	xs := sequences(t, true)
	for _, x := range xs {
		x.Teacher = "x"
	}
	want := trinity.Streams{Divergence: trinity.Divergence{Kind: trinity.ForwardKL}}
	if _, err := one.Forward(t.Context(), whole(xs), want); err != nil {
		t.Error(err)
	}
	if _, err := other.Forward(t.Context(), whole(xs), want); err == nil {
		t.Error("a tenant has the teachers of another one")
	}
	for _, e := range []*Engine{one, other} {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// smolLM2 returns the config of SmolLM2-135M, without weights.
func smolLM2(t *testing.T) *model.Config {
	t.Helper()
	dir := t.TempDir()
	text := `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "head_dim": 64, "hidden_act": "silu", "hidden_size": 576,
		"intermediate_size": 1536, "max_position_embeddings": 8192, "num_attention_heads": 9, "num_hidden_layers": 30,
		"num_key_value_heads": 3, "rms_norm_eps": 1e-5, "rope_theta": 1e5, "tie_word_embeddings": true, "vocab_size": 49152}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	cfg, err := model.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Ten adapters of rank 32 are trained beside each other in 4 GiB, on sequences of 2,048 tokens. A further one takes 160 MB.
func TestTenTenantsInFourGibibytes(t *testing.T) {
	b, err := planShared(smolLM2(t), Options{ModelPath: "smollm2", MaxTokens: 2048, MaxLength: 2049})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := b.PlanTenant(&engine.LoRASpec{LoraRank: 32, LoraAlpha: 32, TargetModules: []string{"all-linear"}})
	if err != nil {
		t.Fatal(err)
	}
	each := int64(0)
	for _, p := range parts {
		if p.Kind != "scratch" {
			each += p.Bytes
		}
	}
	if all := bytesOf(b.memory.parts) + bytesOf(parts) + 9*each; all > 4<<30 || each > 160e6 {
		t.Errorf("%d bytes, of which %d are those of a tenant: %+v, %+v", all, each, b.memory.parts, parts)
	}
}
