package trainer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/trinity-go/trinity"
)

// reference fills in the log-probabilities of the frozen reference where they are missing.
func (l *learner) reference(ctx context.Context, step int64, exps []*trinity.Experience) error {
	var missing []*trinity.Experience
	for _, e := range exps {
		if e.RefLogprobs == nil {
			missing = append(missing, e)
		}
	}
	micros, err := microBatches(l.engine, missing, l.microTokens, 1)
	if err != nil {
		return err
	}
	for _, micro := range micros {
		stats, err := l.engine.Reference(ctx, &trinity.Batch{Step: step, Experiences: micro, Whole: exps})
		if err != nil {
			return err
		}
		for i, e := range micro {
			e.RefLogprobs = stats[i].Logprob
		}
	}
	return nil
}

// cachedReference is reference of a batch, which may have come before.
func (t *Trainer) cachedReference(ctx context.Context, step int64, exps []*trinity.Experience) error {
	if t.Cache == nil {
		return t.policy().reference(ctx, step, exps)
	}
	t.Cache.recall(exps)
	if err := t.policy().reference(ctx, step, exps); err != nil {
		return err
	}
	t.Cache.keep(exps)
	return nil
}

// ReferenceCache keeps the reference log-probabilities of data that come again in a later epoch: the reference is frozen, so they stay the
// same. Those that come first are kept until Limit; the others are computed each time.
type ReferenceCache struct {
	Limit int // bytes

	used    int
	entries map[cacheKey][]float32 // of the trained tokens, in order
}

// cacheKey tells sequences apart by their tokens, what is trained of them, and the temperature.
type cacheKey [16]byte

// entryOverhead is what an entry takes besides its values: key, slice and its share of the map, bytes.
const entryOverhead = 112

// recall fills in what is known.
func (c *ReferenceCache) recall(exps []*trinity.Experience) {
	for _, e := range exps {
		if known, ok := c.entries[keyOf(e)]; ok && e.RefLogprobs == nil {
			e.RefLogprobs = spread(known, e.Mask)
		}
	}
}

// keep adds what is not known yet, while there is room.
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

// trained picks the values of trained tokens out of [T].
func trained(v []float32, mask []bool) []float32 {
	var out []float32
	for t, m := range mask {
		if m {
			out = append(out, v[t])
		}
	}
	return out
}

// spread is [T] with the values at trained tokens, 0 elsewhere.
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
