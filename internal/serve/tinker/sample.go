package tinker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// sampler is a session that samples from a base, or from an adapter of it.
type sampler struct {
	id      string
	base    *Base
	adapter *adapter // nil for the base
	path    string   // of the adapter's checkpoint
	owner   string
	model   string // whose weights at a moment it samples from; "" if it has a path, or the base

	busy  int       // requests that it has; the server's mutex guards it and the next
	asked time.Time // when it had the last one, or began
}

// close says that the session has ended.
func (x *sampler) close() {
	if x.adapter != nil {
		x.base.shelf.drop(context.Background(), x.adapter)
	}
}

// closeAll closes samplers. Nobody who calls it holds the server's mutex: closing waits for adapters that are read meanwhile,
// and all requests would wait with it.
func closeAll(all []*sampler) {
	for _, x := range all {
		x.close()
	}
}

func (s *Server) addSampler(x *sampler) {
	var had []*sampler
	s.mu.Lock()
	if before := s.samplers[x.id]; before != nil { // a request came again
		had = append(had, before)
	}
	if s.sessions[sessionOf(x.id)] != nil {
		x.asked = time.Now()
		s.samplers[x.id] = x
	} else { // it has ended meanwhile, and nothing else would close the sampler
		delete(s.samplers, x.id)
		had = append(had, x)
	}
	s.mu.Unlock()
	closeAll(had)
}

// samplerFor returns a sampler of a base model, or of a checkpoint.
func (s *catalog) samplerFor(owner, id, baseModel, path string) (*sampler, error) {
	if path == "" {
		b, err := s.baseOf(baseModel)
		return &sampler{id: id, owner: owner, base: b}, err
	}
	c, err := s.store.readable(owner, path)
	if err != nil {
		return nil, err
	}
	if baseModel != "" && baseModel != c.BaseModel {
		return nil, bad("%s is of %s, and not of %.200q", c.path, c.BaseModel, baseModel)
	}
	b, err := s.base(c)
	if err != nil {
		return nil, err
	}
	if err := c.samplesOn(b); err != nil {
		return nil, err
	}
	return &sampler{id: id, owner: owner, base: b, adapter: b.shelf.add(c), path: path}, nil
}

// samplesOn returns an error if the sampler of a base takes no adapters like this one.
func (m *recipe) samplesOn(b *Base) error {
	if m.TrainUnembed && b.OnServers {
		return bad("it has an adapter of the output head, which the servers do not take on which this service samples: " +
			"create the model with train_unembed=False")
	}
	return nil
}

func (s *Server) createSampler(ctx context.Context, body []byte) (any, error) {
	var in tinker.CreateSampler
	if err := read(body, &in); err != nil {
		return nil, err
	}
	_, id, err := s.numbered(Owner(ctx), in.SessionID, "sample", in.SamplerSeqID, "sampling_session_seq_id")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	err = tooMany("sampling sessions", maxSamplers, s.samplers, func(x *sampler) bool { return x.owner == Owner(ctx) })
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	x, err := s.all.samplerFor(Owner(ctx), id, in.BaseModel, in.ModelPath)
	if err != nil {
		return nil, err
	}
	if err := s.all.store.keepSampler(x); err != nil {
		x.close()
		return nil, full(err)
	}
	s.addSampler(x)
	return map[string]string{"type": "create_sampling_session", "sampling_session_id": id}, nil
}

func (s *Server) samplerOf(owner, id string) (*sampler, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.samplers[id]; x != nil && x.owner == owner {
		return x, nil
	}
	return nil, noSampler(id)
}

// info returns what the API says of the session.
func (x *sampler) info() map[string]string {
	info := map[string]string{"sampler_id": x.id, "base_model": x.base.Name}
	if x.path != "" {
		info["model_path"] = x.path
	}
	return info
}

// maxSamples bounds the samples of a request.
const maxSamples = 1024

func (s *Server) sample(ctx context.Context, body []byte) (any, error) {
	in := tinker.Sample{NumSamples: 1}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	if in.NumSamples < 1 || in.NumSamples > maxSamples {
		return nil, bad("num_samples is %d: want 1 to %d", in.NumSamples, maxSamples)
	}
	owner, seq := Owner(ctx), rand.Int64()
	of := s.touch(owner, in.SamplingSessionID)
	x, err := s.samplerOf(owner, in.SamplingSessionID)
	if in.SamplingSessionID == "" { // it has no numbers of its own
		of, in.SeqID = &session{}, nil
		x, err = s.all.samplerFor(owner, "sample", in.BaseModel, in.ModelPath)
	}
	if err != nil {
		return nil, err
	}
	if of == nil {
		return nil, missing("the session of %.200q has ended", in.SamplingSessionID)
	}
	if in.SeqID != nil {
		seq = *in.SeqID
	}
	id := fmt.Sprintf("%s:%d", x.id, seq)
	reply := tinker.Submitted{}
	for i := range in.NumSamples {
		reply.SampleSequenceIDs = append(reply.SampleSequenceIDs, fmt.Sprintf("%s:%d", id, i))
	}
	closing := func() {}
	if in.SamplingSessionID == "" {
		closing = x.close
	}
	submitted, err := s.submit(owner, id, body, reply, func(f *future) error {
		if err := x.hasRoom(in.NumSamples); err != nil {
			return err
		}
		if in.SamplingSessionID != "" {
			if closing, err = x.asking(s); err != nil {
				return err
			}
		}
		return s.start(ctx, func(ctx context.Context) {
			ctx, cancel := of.during(ctx)
			defer cancel()
			samples, err := x.sample(ctx, &in)
			closing()
			switch {
			case err == nil:
				f.finish(encoded(samples.Encode()), nil)
			case of.hasEnded():
				f.finish(nil, errors.New("its session has ended"))
			case ctx.Err() == nil:
				f.finish(nil, err)
			} // else the service stops, and the client asks the next one
		})
	})
	if err != nil {
		closing()
	}
	return submitted, err
}

// maxWaiting bounds the sequences of a key that wait for the sampler of a base.
const maxWaiting = 4096

// hasRoom returns an error if the key of a sampler has no tokens left, or too many sequences wait. The SDK asks again by itself.
func (x *sampler) hasRoom(samples int) error {
	if wait, why := x.base.queue.account.pause(x.owner); wait > 0 {
		return &problem{http.StatusTooManyRequests, why, wait}
	}
	if waiting := x.base.queue.units(x.owner); waiting > 0 && waiting+samples > maxWaiting {
		return &problem{status: http.StatusTooManyRequests, text: fmt.Sprintf("%d sequences of this key wait to be sampled", waiting)}
	}
	return nil
}

// sample returns the samples of a request, with the log-probabilities of its prompt if it asks for them.
func (x *sampler) sample(ctx context.Context, in *tinker.Sample) (*tinker.Samples, error) {
	prompt, err := in.Prompt.Tokens()
	if err != nil {
		return nil, err
	}
	p, err := x.params(in, prompt)
	if err == nil {
		err = x.scoring(in, prompt, p)
	}
	if err != nil {
		return nil, err
	}
	completions, err := x.draw(ctx, trinity.Prompt{Tokens: prompt}, *p)
	if err != nil {
		return nil, err
	}
	out := &tinker.Samples{CachedPrompt: int32(completions[0].Reused)}
	for _, c := range completions {
		q := tinker.Sequence{ReachedLength: c.FinishReason == "length", Tokens: c.Tokens, Logprobs: c.Logprobs}
		if in.TopSampleLogprobs > 0 {
			q.Top = top(c.TopLogprobs, in.TopSampleLogprobs)
		}
		out.Sequences = append(out.Sequences, q)
	}
	scores := completions[0].Prompt
	if p.ScorePrompt && len(scores.Logprobs) != len(prompt)-1 {
		return nil, errors.New("the sampler of this service gives no log-probabilities of a prompt")
	}
	if p.ScorePrompt {
		addScores(out, in, scores)
	}
	return out, nil
}

// top returns the k most likely tokens of each place.
func top(of [][]trinity.TokenLogprob, k int) *tinker.Top {
	t := &tinker.Top{K: uint32(k), Length: uint32(len(of))}
	for _, row := range of {
		for i := range k {
			cell := trinity.TokenLogprob{Logprob: tinker.NoLogprob}
			if i < len(row) {
				cell = row[i]
			}
			t.Tokens, t.Logprobs = append(t.Tokens, cell.Token), append(t.Logprobs, cell.Logprob)
		}
	}
	return t
}

// params returns how to sample, checked.
func (x *sampler) params(in *tinker.Sample, prompt []int32) (*trinity.SamplingParams, error) {
	b, q := x.base, &in.Params
	if in.RecordStabilityInfo {
		return nil, errors.New("record_stability_info is not in this version")
	}
	most := b.MaxLen - 1
	if in.PromptLogprobs || in.PromptTargets != nil { // also of a sequence that has reached the limit
		most = b.MaxScored - 1
	}
	if len(prompt) == 0 || len(prompt) > most {
		return nil, fmt.Errorf("the prompt has %d tokens: want 1 to %d", len(prompt), most)
	}
	if err := b.check("the prompt", prompt); err != nil {
		return nil, err
	}
	p := &trinity.SamplingParams{
		N: in.NumSamples, Temperature: value(q.Temperature, 1), TopK: value(q.TopK, -1), TopP: value(q.TopP, 1), MaxTokens: value(q.MaxTokens, 0),
		Seed: rand.Uint64(), TopLogprobs: max(in.TopPromptLogprobs, in.TopSampleLogprobs),
	}
	if q.Seed != nil {
		p.Seed = uint64(*q.Seed)
	}
	if q.Stop != nil {
		p.Stop, p.StopTokens = q.Stop.Texts, q.Stop.Tokens
		isEOS := func(t int32) bool { return slices.Contains(b.EOS, t) }
		p.IgnoreEOS = !slices.ContainsFunc(p.StopTokens, isEOS) // the client says what ends a sequence
	}
	switch {
	case !(p.Temperature >= 0) || math.IsInf(float64(p.Temperature), 0):
		return nil, fmt.Errorf("sampling_params.temperature is %v: want 0 or more", p.Temperature)
	case !(p.TopP > 0 && p.TopP <= 1):
		return nil, fmt.Errorf("sampling_params.top_p is %v: want more than 0, 1 at most", p.TopP)
	case q.MaxTokens != nil && p.MaxTokens < 1:
		return nil, fmt.Errorf("sampling_params.max_tokens is %d: want 1 or more", p.MaxTokens)
	case min(in.TopPromptLogprobs, in.TopSampleLogprobs) < 0 || p.TopLogprobs > trinity.MaxTopLogprobs:
		return nil, fmt.Errorf("topk_prompt_logprobs, topk_sample_logprobs: want 0 to %d", trinity.MaxTopLogprobs)
	case slices.Contains(p.Stop, ""):
		return nil, errors.New("sampling_params.stop has an empty text")
	}
	if changed := p.Changed(); changed != "" && b.OnServers {
		return nil, fmt.Errorf("sampling_params: with %s the servers on which this service samples return log-probabilities that are not "+
			"those of the model: leave it out", changed)
	}
	p.MaxTokens = min(cmp.Or(p.MaxTokens, b.MaxLen), max(1, b.MaxLen-len(prompt)))
	return p, nil
}

func value[T any](given *T, usual T) T {
	if given == nil {
		return usual
	}
	return *given
}
