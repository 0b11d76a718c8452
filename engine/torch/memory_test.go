package torch

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/model"
)

// peak returns the most bytes that rank 0 has used so far: of its GPU, or else of this machine.
func peak(t *testing.T, w *worker) int64 {
	t.Helper()
	answer, err := w.client.Do(t.Context(), retry.Request{Method: http.MethodGet, URL: w.base + "/v1", Header: w.header(0)})
	if err != nil {
		t.Fatal(err)
	}
	status, err := decode(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var used struct{ Machine, GPU int64 }
	if err := status.value("memory", &used); err != nil {
		t.Fatal(err)
	}
	if used.GPU > 0 {
		return used.GPU
	}
	return used.Machine
}

// rowsOf are sequences of random tokens that fill a micro-batch.
func rowsOf(vocabulary, sequences, length int) *trinity.Batch {
	r := rand.New(rand.NewPCG(1, 2))
	b := &trinity.Batch{Step: 1}
	for i := range sequences {
		x := &trinity.Experience{ID: trinity.ExperienceID{Run: i}, PromptLen: 1, Temperature: 1}
		for t := range length {
			x.Tokens, x.Mask = append(x.Tokens, int32(r.IntN(vocabulary))), append(x.Mask, t > 0)
			x.Advantages, x.Returns = append(x.Advantages, float32(r.NormFloat64())), append(x.Returns, 0)
		}
		b.Experiences = append(b.Experiences, x)
	}
	b.Whole = b.Experiences
	return b
}

// The plan is close to what a worker takes at most.
func TestPlanOfTheMemory(t *testing.T) {
	path := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if path == "" {
		t.Skip("TRINITY_SMOLLM2_GGUF does not name the model")
	}
	full := func(tokens int) engine.TrainerSpec {
		return engine.TrainerSpec{ModelPath: path, MicroTokens: tokens, MaxModelLen: 512, Train: true}
	}
	again, kept, adapter := full(1024), full(256), full(512)
	again.Recompute = 28
	kept.Ahead, kept.Reference = true, true
	adapter.LoRA = &engine.LoRASpec{LoraRank: 16, LoraAlpha: 16, TargetModules: engine.Names{"all-linear"}}
	for _, c := range []struct {
		name  string
		args  map[string]any
		spec  engine.TrainerSpec
		ranks int
	}{
		{"long", nil, full(1024), 1},
		{"recomputed", nil, again, 1},
		{"reference and published", nil, kept, 1},
		{"adapter", nil, adapter, 1},
		{"products in bfloat16", map[string]any{"compute_dtype": bf16}, full(512), 1},
		{"two ranks, many logits", map[string]any{"head_rows": 512}, full(512), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := realPlugin(t, c.args)
			c.spec.Place = here(t, c.ranks)
			e := opened(t, p, c.spec)
			b := rowsOf(49152, c.ranks*c.spec.MicroTokens/256, 256)
			for range 3 { // the second step keeps the published weights
				if _, err := e.ForwardBackward(t.Context(), b, mixed{trinity.Streams{Entropy: true}}); err != nil {
					t.Fatal(err)
				}
				if c.spec.Reference {
					if _, err := e.Reference(t.Context(), b); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := e.OptimStep(t.Context(), trinity.OptimParams{LR: 1e-6, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}); err != nil {
					t.Fatal(err)
				}
				if err := e.(engine.Publisher).Offer(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			parts, err := p.PlanMemory(c.spec)
			if err != nil {
				t.Fatal(err)
			}
			planned := int64(0)
			for _, part := range parts {
				switch {
				case part.Kind == "context": // PyTorch does not count it
				case part.Passing, (part.Device != "") != (c.spec.Place.GPUs > 0):
				case part.Kind == "worker": // rank 0 also has the pages that the ranks share
					planned += pythonBytes
				default:
					planned += part.Bytes / int64(c.ranks)
				}
			}
			used := peak(t, p.worker)
			t.Logf("planned %d MiB, used %d MiB", planned>>20, used>>20)
			if share := float64(planned) / float64(used); share < 0.8 || share > 1.25 {
				t.Errorf("the plan has %.2f of the memory that was used: %v", share, parts)
			}
		})
	}
}

// A device without room names the micro-batch that the plan has room for.
func TestSmallerMicroBatch(t *testing.T) {
	spec := trained("llama")
	spec.MicroTokens, spec.MaxModelLen = 1000, 100
	cfg, err := model.ReadConfig(spec.ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	spec.Place = engine.Place{Nodes: 1, Ranks: 2, GPUs: 2}
	of := func(tokens int) int64 {
		f := newFootprint(cfg, spec, &args{Compute: "auto", HeadRows: 16})
		f.free, f.spec.MicroTokens = 1, tokens
		parts, err := f.plan()
		if err != nil {
			t.Fatal(err)
		}
		bytes := int64(0)
		for _, p := range parts {
			if p.Device == "each GPU" && p.Free == 1 {
				bytes += p.Bytes
			}
		}
		return bytes
	}
	for _, c := range []struct {
		gpu  int64
		want string
	}{
		{of(400), "max_token_len_per_gpu=400 would fit"}, {of(401) - 1, "=400 would fit"}, {of(2000), "=500 would fit"}, {0, "=500 would fit"},
		{of(70), "the plan has room for 70 tokens at once: raise cluster.trainer_ranks"}, {1, "room for 0 tokens"},
	} {
		f := newFootprint(cfg, spec, &args{Compute: "auto", HeadRows: 16})
		f.free = c.gpu
		err := f.smaller(errors.New("OutOfMemoryError: CUDA"))
		if !lacksMemory(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d bytes: %v; want %q", c.gpu, err, c.want)
		}
	}
}

func TestLeastFreeGPU(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "80000\n": 80000 << 20, "80000\n70000\n75000\n": 70000 << 20, "[N/A]\n": 0} {
		if got := leastFree(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
