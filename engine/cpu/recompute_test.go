package cpu

import (
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

func TestRecomputedActivationsGiveTheSameBits(t *testing.T) {
	for name, opts := range map[string]Options{
		"four layers": randomOptions(t, 4, 256), "q/k norm": tiny("qwen3"), "biases": tiny("qwen2"), "experts": tiny("qwen3_moe"),
		"no rope": tiny("smollm3"), "more norms": tiny("gemma3_text"), "wide norms": tiny("olmo3"),
		"one matrix": tiny("phi3"), "factors": tiny("granite"), "convolutions": tiny("lfm2"),
	} {
		for _, lora := range []*engine.LoRASpec{nil, {LoraRank: 2, LoraAlpha: 4}} {
			opts := opts
			opts.LoRA, opts.MaxTokens = lora, 256
			e := open(t, opts)
			groups := longGroups(e.cfg.VocabSize)
			losses := []trinity.Loss{weighted{}, idle{[]int{0, 2, 3}}}
			var want [][]float32
			for _, loss := range losses {
				_, g := e.gradientOf(t, loss, whole(groups))
				want = append(want, g)
			}
			kept := e.passes.backbone.work.arena.Bytes()
			for n := 1; n <= e.cfg.NumLayers; n++ {
				opts.Recompute = n
				again := open(t, opts)
				for i, loss := range losses {
					if _, got := again.gradientOf(t, loss, whole(groups)); !slices.Equal(got, want[i]) {
						t.Errorf("%s, %d layers again, loss %d: other gradients", name, n, i)
					}
				}
				if less := again.passes.backbone.work.arena.Bytes(); n < e.cfg.NumLayers && less >= kept {
					t.Errorf("%s: %d bytes with %d layers again, %d before", name, less, n, kept)
				} else {
					kept = less
				}
			}
		}
	}
}

// The workspace may have grown for a batch without a backward pass.
func TestScoringALongBatchLeavesRoomForTheBackwardPass(t *testing.T) {
	opts := tiny("llama")
	opts.MaxTokens = 8
	e := open(t, opts)
	groups := longGroups(e.cfg.VocabSize)
	if _, err := e.Forward(t.Context(), whole(groups[4:5]), trinity.Streams{}); err != nil {
		t.Fatal(err)
	}
	e.gradientOf(t, weighted{}, whole(groups[:1]))
}
