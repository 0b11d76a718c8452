package weights

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
)

// Provable is a Loader whose copies of the weights are checked one by one, before they are used.
type Provable interface {
	Loader
	// Prove makes every later LoadWeights check each copy of the weights, which it names. A copy that
	// fails is delivered again, and is not used meanwhile.
	Prove(p engine.Proving)
}

const (
	probes      = 8    // sequences, at most
	probeTokens = 192  // of all sequences: one of that length, if the model has room
	fewTokens   = 64   // of these, for a copy with little noise
	littleNoise = 1e-4 // nats, as programs in f32 have
	mostNoise   = 0.3  // nats, between two programs that compute with the same weights
	loudNoise   = 0.05 // nats: people should know of it
	leastNoise  = 1e-5
	mostScored  = 16 // versions that a copy is compared with
)

// proveTime is the metric of the seconds that the proof of a version took, of the slowest copy.
const proveTime = "sync/prove"

// Probe is how an engine is asked for what proves its weights: it scores a few fixed sequences of a
// model's tokens.
type Probe struct {
	Vocab  int // tokens of the vocabulary
	Length int // of the longest sequence
	// Digests are the versions between two comparisons of the copies' digests; 0 compares none.
	Digests int
}

// scores is how an engine scores the probe with a version.
type scores struct {
	Tokens   [][]int32   `json:"tokens"`
	Logprobs [][]float64 `json:"logprobs"` // of each token after the first, in nats
}

// ask lets an engine score the probe with its weights, which are a version.
func (p Probe) ask(ctx context.Context, trainer engine.Trainer, version int64) (s scores, err error) {
	length := min(probeTokens, max(2, p.Length-1))         // a server needs room for a reply
	for i := range min(probes, (probeTokens-1)/length+1) { // one by one, because the engine's memory is planned for one row at least
		e := &trinity.Experience{ID: trinity.ExperienceID{Task: "probe", Run: i}, PromptLen: 1, Temperature: 1}
		for t := range length {
			e.Tokens, e.Mask = append(e.Tokens, int32((7919*(i*probeTokens+t)+11)%p.Vocab)), append(e.Mask, t > 0)
		}
		one := []*trinity.Experience{e}
		stats, err := trainer.Forward(ctx, &trinity.Batch{Experiences: one, Whole: one}, trinity.Streams{})
		if err != nil {
			return s, fmt.Errorf("scoring the probe with version %d: %w", version, err)
		}
		var logprobs []float64
		for _, l := range stats[0].Logprob[1:] {
			if logprobs = append(logprobs, float64(l)); !(l > -math.MaxFloat32 && l <= math.MaxFloat32) {
				return s, fmt.Errorf("scoring the probe with version %d: the engine's log-probability of a token is %v: "+
					"its weights are no numbers any more", version, l)
			}
		}
		s.Tokens, s.Logprobs = append(s.Tokens, e.Tokens), append(s.Logprobs, logprobs)
	}
	return s, nil
}

// probeFile is the file beside those of a version that has the engine's scores, as JSON.
const probeFile = "probe.json"

// write writes the scores beside the files of their version.
func (s scores) write(dir string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, probeFile), data)
}

// readScores reads the scores beside the files of a version. ok is false if there are none.
func readScores(dir string) (s scores, ok bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, probeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err == nil && !s.isWhole() {
		err = errors.New("it lacks log-probabilities of its tokens")
	}
	if err != nil {
		return s, false, fmt.Errorf("%s, the trainer's scores of the probe: %w", probeFile, err)
	}
	return s, true, nil
}

// isWhole reports whether each token after the first of a sequence has a log-probability.
func (s scores) isWhole() bool {
	for i, tokens := range s.Tokens {
		if i >= len(s.Logprobs) || len(tokens) < 2 || len(s.Logprobs[i]) != len(tokens)-1 {
			return false
		}
	}
	return len(s.Tokens) > 0
}

// proof compares how the engine and the copies of its weights score a few fixed sequences.
//
// The noise of a copy is the least mean difference of its log-probabilities from the engine's so far.
// A version is proven if the mean difference is at most three times the noise and, for each earlier
// version that training has moved by more than twice the noise, the copy is nearer to the new one. So
// it cannot see a copy that is behind by less than that. A copy whose first version has little noise scores
// the first of the tokens from then on.
type proof struct {
	say func(string) // may be nil

	mu     sync.Mutex
	tokens [][]int32
	scored []scored           // ascending
	noise  map[string]float64 // of each copy, in nats
	few    map[string]bool    // copies that score the first of the tokens
	last   trinity.Metrics    // of the newest version
}

// scored is how the engine scores the tokens with a version.
type scored struct {
	version  int64
	logprobs []float64
}

func newProof(say func(string)) *proof {
	return &proof{say: say, noise: map[string]float64{}, few: map[string]bool{}, last: trinity.Metrics{}}
}

// learn takes the engine's scores with a version. Scores of other tokens replace all earlier ones.
func (p *proof) learn(version int64, s scores) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.EqualFunc(p.tokens, s.Tokens, slices.Equal) {
		p.tokens, p.scored, p.noise, p.few = s.Tokens, nil, map[string]float64{}, map[string]bool{}
	}
	p.scored = append(slices.DeleteFunc(p.scored, func(s scored) bool { return s.version >= version }),
		scored{version, slices.Concat(s.Logprobs...)})
	p.scored = p.scored[max(0, len(p.scored)-mostScored):]
}

// proving returns how a sampler proves a version. alone says that nobody samples while it loads.
func (p *proof) proving(alone bool, digests int) engine.Proving {
	return engine.Proving{Alone: alone, Check: p.check, Digests: digests, Covered: p.covered}
}

// covered takes the share of the tensors whose digests agree.
func (p *proof) covered(share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last["sync/digests_covered"] = share
}

// check returns an error unless a copy has the version. A version that the engine has not scored
// passes.
func (p *proof) check(ctx context.Context, version int64, copy string, score engine.ScoreTokens) error {
	begin := time.Now()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last[proveTime] = max(p.last[proveTime], time.Since(begin).Seconds())
	}()
	p.mu.Lock()
	known := slices.ContainsFunc(p.scored, func(s scored) bool { return s.version == version })
	tokens := p.tokens
	if p.few[copy] {
		tokens = first(tokens, fewTokens)
	}
	p.mu.Unlock()
	if !known {
		return nil
	}
	var got []float64
	for _, sequence := range tokens { // one by one, because some servers cannot score several at once
		logprobs, err := score(ctx, sequence)
		if err == nil && len(logprobs) != len(sequence)-1 {
			err = fmt.Errorf("%d log-probabilities for %d tokens", len(logprobs), len(sequence)-1)
		}
		if err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		for _, l := range logprobs {
			got = append(got, float64(l))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.scored, func(s scored) bool { return s.version == version })
	return p.judge(p.scored[:at+1], copy, got)
}

// first returns the beginning of sequences with so many log-probabilities, or a few more.
func first(sequences [][]int32, n int) (cut [][]int32) {
	for _, s := range sequences {
		if n <= 0 {
			break
		}
		s = s[:min(len(s), max(2, n+1))]
		cut, n = append(cut, s), n-len(s)+1
	}
	return cut
}

// judge compares what a copy says of the newest of some versions. The lock is held.
func (p *proof) judge(versions []scored, copy string, got []float64) error {
	now := versions[len(versions)-1]
	off := apart(got, now.logprobs)
	noise, known := p.noise[copy]
	if !known && !(off <= mostNoise) {
		return fmt.Errorf("probe: its log-probabilities are %.2g nats from the trainer's in the mean: it has another model", off)
	}
	if !known {
		noise = max(off, leastNoise)
		if p.few[copy] = noise < littleNoise; p.few[copy] {
			noise = max(noise, apart(got[:min(fewTokens, len(got))], now.logprobs))
		}
		p.noise[copy] = noise
		if noise > loudNoise && p.say != nil {
			p.say(fmt.Sprintf("%s: its log-probabilities are %.2g nats from the trainer's in the mean: a version is proven only as far as "+
				"training has moved them by twice that", copy, noise))
		}
	}
	p.last["sync/probe_mean"], p.last["sync/probe_noise"] = max(off, p.last["sync/probe_mean"]), max(noise, p.last["sync/probe_noise"])
	for _, old := range slices.Backward(versions[:len(versions)-1]) {
		from := apart(got, old.logprobs)
		if apart(now.logprobs, old.logprobs) > 2*noise && from <= min(off, 3*noise) {
			return fmt.Errorf("probe: it still has version %d: its log-probabilities are %.2g nats from the trainer's of that version in the mean, "+
				"and %.2g from those of version %d", old.version, from, off, now.version)
		}
	}
	if !(off <= 3*noise) {
		return fmt.Errorf("probe: its log-probabilities are %.2g nats from the trainer's in the mean, and were %.2g before",
			off, noise)
	}
	p.noise[copy] = min(noise, max(off, leastNoise)) // the first version may have been another than the copy had
	return nil
}

// metrics returns the mean differences of the copies of the newest version and their noise, the largest
// of each, and how far the version is from the one before, in nats.
func (p *proof) metrics() trinity.Metrics {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.last
	p.last = trinity.Metrics{}
	if n := len(p.scored); n > 1 {
		m["sync/probe_drift"] = apart(p.scored[n-1].logprobs, p.scored[n-2].logprobs)
	}
	return m
}

// apart returns the mean absolute difference of a from the beginning of b.
func apart(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += math.Abs(a[i] - b[i])
	}
	return sum / float64(len(a))
}
