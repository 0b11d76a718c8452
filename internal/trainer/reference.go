package trainer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"

	"github.com/trinity-go/trinity"
)

// reference fills in the log-probabilities of the frozen reference for experiences that lack them.
func (u *updater) reference(ctx context.Context, step int64, exps []*trinity.Experience) error {
	var missing []*trinity.Experience
	for _, e := range exps {
		if e.RefLogprobs == nil {
			missing = append(missing, e)
		}
	}
	micros, err := microBatches(u.Engine, missing, u.microTokens, 1)
	if err != nil {
		return err
	}
	for _, micro := range micros {
		stats, err := u.Engine.Reference(ctx, &trinity.Batch{Step: step, Experiences: micro, Whole: exps})
		if err != nil {
			return err
		}
		for i, e := range micro {
			e.RefLogprobs = stats[i].Logprob
		}
	}
	return nil
}

// cachedReference fills in the reference log-probabilities of a batch, from the cache if it has
// them.
func (t *Trainer) cachedReference(ctx context.Context, step int64, exps []*trinity.Experience) error {
	defer t.opts.Tracing.span(step, trinity.SpanForward, "ref_log_probs", "", time.Now())
	if t.opts.Cache == nil {
		return t.policy().reference(ctx, step, exps)
	}
	t.opts.Cache.recall(exps)
	if err := t.policy().reference(ctx, step, exps); err != nil {
		return err
	}
	t.opts.Cache.keep(exps)
	return nil
}

// ReferenceCache keeps the reference log-probabilities of data that a later epoch repeats: the
// reference is frozen, so they stay the same. The cache keeps the first ones until it has Limit
// bytes; the trainer computes the others in every epoch.
type ReferenceCache struct {
	Limit int // bytes

	used    int
	entries map[cacheKey][]float32 // of the trained tokens, in order
}

// cacheKey identifies a sequence by its tokens, its mask and its temperature.
type cacheKey [16]byte

// entryOverhead is the size of an entry without its values, in bytes: key, slice and a share of the
// map.
const entryOverhead = 112

// recall fills in the log-probabilities that the cache has.
func (c *ReferenceCache) recall(exps []*trinity.Experience) {
	for _, e := range exps {
		if known, ok := c.entries[keyOf(e)]; ok && e.RefLogprobs == nil {
			e.RefLogprobs = spread(known, e.Mask)
		}
	}
}

// keep adds the log-probabilities that the cache lacks, while there is room.
func (c *ReferenceCache) keep(exps []*trinity.Experience) {
	if c.entries == nil {
		c.entries = map[cacheKey][]float32{}
	}
	for _, e := range exps {
		key, size := keyOf(e), entryOverhead+4*e.TrainedTokens()
		if _, ok := c.entries[key]; ok || c.used+size > c.Limit {
			continue
		}
		c.entries[key] = trained(e.RefLogprobs, e.Mask)
		c.used += size
	}
}

func keyOf(e *trinity.Experience) (key cacheKey) {
	data := make([]byte, 0, 5*len(e.Tokens)+4)
	for i, token := range e.Tokens {
		data = binary.LittleEndian.AppendUint32(data, uint32(token))
		if e.Mask[i] {
			data = append(data, 1)
		} else {
			data = append(data, 0)
		}
	}
	sum := sha256.Sum256(binary.LittleEndian.AppendUint32(data, math.Float32bits(e.Temperature)))
	copy(key[:], sum[:])
	return key
}

// trained returns the values of the trained tokens of v [T].
func trained(v []float32, mask []bool) []float32 {
	var out []float32
	for t, m := range mask {
		if m {
			out = append(out, v[t])
		}
	}
	return out
}

// spread returns [T] with the values at the trained tokens and 0 elsewhere.
func spread(values []float32, mask []bool) []float32 {
	out, next := make([]float32, len(mask)), 0
	for t, m := range mask {
		if m {
			out[t] = values[next]
			next++
		}
	}
	return out
}
