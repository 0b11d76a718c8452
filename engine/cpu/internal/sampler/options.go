package sampler

import (
	"errors"
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// Options plan a sampler. A zero value means the default after the semicolon.
type Options struct {
	Pool *kernel.Pool // computes; nil means only the scheduler's goroutine

	// Storage is the number format of the matrices. F32 samples exactly what training computes,
	// BF16 reads half the bytes, Int8 a quarter and quantises activations too. Both keep keys and values
	// in bf16.
	Storage kernel.Storage

	// InPlace reads matrices and embeddings where [Weights.Packed] has them, and takes no memory for them. It needs F32. Whoever
	// changes them calls [Sampler.Rest] before and Update after.
	InPlace bool

	MaxSequences int // completions that decode at once; 32

	// MaxTokens is the number of tokens that the K/V cache holds, in pages of 16; MaxSequences ×
	// MaxModelLen, at most 65536, or 131072 in BF16 and Int8. Each takes 8·NumKVHeads·HeadDim bytes a
	// layer, or half of them in BF16 and Int8, once its page has been written. In a layer with a
	// convolution it takes 4·HiddenSize bytes.
	MaxTokens    int
	MaxModelLen  int // tokens of a prompt and its completion; the model's MaxPositions, at most the reach of its RoPE
	PrefillChunk int // prompt tokens computed in one step, besides decoding; 512

	// KeepAcrossVersions lets rollouts under way, whose calls have a Hold, use K/V of replaced weights.
	// Completion.Versions then begins with the version of the oldest K/V.
	KeepAcrossVersions bool

	// Routes returns the experts of each token (Completion.Experts). The model must have a mixture.
	Routes bool

	// Drafts is the number of draft tokens that a step verifies for a sequence, at most MostDrafts;
	// Automatic lets the sampler choose. It changes no bit of what is sampled. 0 means none.
	Drafts int

	MaxAdapters    int // named LoRA adapters at once; 64
	MaxAdapterRank int // rank of the largest named LoRA adapter; 512

	// Decode turns tokens into text, for stop strings; several goroutines call it at once. Without it,
	// requests with stop strings fail.
	Decode func(tokens []int32) string
}

// withDefaults fills in defaults. It reports every setting that cannot work.
func (o Options) withDefaults(cfg *model.Config) (Options, error) {
	setDefault := func(v *int, value int) {
		if *v == 0 {
			*v = value
		}
	}
	setDefault(&o.MaxSequences, 32)
	setDefault(&o.MaxModelLen, min(cfg.MaxPositions, cfg.RopeScaling.Reach()))
	setDefault(&o.PrefillChunk, 512)
	setDefault(&o.MaxAdapters, 64)
	setDefault(&o.MaxAdapterRank, 512)
	if o.MaxTokens == 0 && o.MaxSequences > 0 && o.MaxModelLen > 0 {
		whole := pagesFor(o.MaxModelLen) * pageTokens
		most := 65536
		if cached(o.Storage) == kernel.BF16 {
			most *= 2 // in the same memory
		}
		o.MaxTokens = max(min(o.MaxSequences*whole, most), 2*whole)
	}
	_, err := kernel.Forced()
	errs := []error{err}
	if err := cfg.CheckRouter(); err != nil && o.Routes {
		errs = append(errs, fmt.Errorf("sampler: %w", err))
	}
	if o.InPlace && o.Storage != kernel.F32 {
		errs = append(errs, errors.New("sampler: InPlace needs matrices in f32"))
	}
	for _, s := range []struct {
		name  string
		value int
	}{{"MaxSequences", o.MaxSequences}, {"MaxTokens", o.MaxTokens}, {"MaxModelLen", o.MaxModelLen}, {"PrefillChunk", o.PrefillChunk},
		{"MaxAdapters", o.MaxAdapters}, {"MaxAdapterRank", o.MaxAdapterRank}} {
		if s.value < 0 {
			errs = append(errs, fmt.Errorf("sampler: %s is %d; expected a positive number", s.name, s.value))
		}
	}
	if o.Drafts < Automatic || o.Drafts > MostDrafts {
		errs = append(errs, fmt.Errorf("sampler: Drafts is %d; expected 0 to %d, or Automatic", o.Drafts, MostDrafts))
	}
	if s := cfg.RopeScaling; s != nil && s.Type == "dynamic" && o.MaxModelLen > cfg.MaxPositions {
		errs = append(errs, fmt.Errorf("sampler: MaxModelLen %d is over the model's %d positions, where dynamic RoPE scaling changes frequencies "+
			"with every token; set MaxModelLen to %d or less", o.MaxModelLen, cfg.MaxPositions, cfg.MaxPositions))
	}
	if most := cfg.RopeScaling.Reach(); o.MaxModelLen > most {
		errs = append(errs, fmt.Errorf("sampler: MaxModelLen is %d, but beyond %d tokens the model's longrope has other frequencies, "+
			"which this engine does not compute; set max_model_len to %d or less", o.MaxModelLen, most, most))
	}
	return o, errors.Join(errs...)
}

// decodedRows returns the most rows of a step that are not a prompt's.
func (o *Options) decodedRows() int {
	if o.Drafts == 0 {
		return o.MaxSequences
	}
	return max(o.MaxSequences, verifiedRows)
}
