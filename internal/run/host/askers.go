package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/wire/openai"
)

// asker is a model of this process, which each rollout gets a copy of, or one behind a server.
type asker struct {
	model  func() *trinity.Model
	beyond trinity.Asker
	as     any          // the model and how it samples, for the key of its answers
	fits   func() error // whether it can score the policy's tokens
}

// openAsked opens the models that rollouts ask.
func (h *Host) openAsked(ctx context.Context) error {
	s := h.stage
	models := s.AskedModels()
	if len(models) > 0 {
		dir, err := h.Dir("asked")
		if err == nil {
			err = h.answered.open(dir)
		}
		if err != nil {
			return err
		}
	}
	for _, a := range models {
		if a.External {
			client, sampling := settle.Client(a.AskedModel), openai.Request{
				Model: a.ExternalModelConfig.ModelName, MaxTokens: a.MaxResponseTokens,
			}
			if a.Temperature != nil {
				sampling.Temperature, sampling.TopP = new(float32(*a.Temperature)), new(float32(*a.TopP))
			}
			h.askers[a.Name] = asker{
				beyond: &openai.Asker{
					Client: client, Name: a.Name, KeyEnv: a.ExternalModelConfig.APIKeyEnv, Sampling: sampling,
					MaxRequests: a.ExternalModelConfig.MaxRequests, MaxTokens: a.ExternalModelConfig.MaxTokens,
				},
				as:   []any{client.BaseURL, sampling},
				fits: func() error { return errChatAPI },
			}
			continue
		}
		sampler, err := s.Openers.Sampler.OpenSampler(ctx, a.Spec(s.Batch.Sequences))
		if err != nil {
			return s.At(a.Key, fmt.Sprintf("opening model %s: %v", a.Local, err), "")
		}
		as := []any{a.Local, a.Quantization, a.ChatTemplate, a.EnableThinking, a.MaxModelLen, a.Temperature, a.TopP, a.TopK,
			a.RepetitionPenalty, a.MaxResponseTokens, a.MinResponseTokens}
		open := asker{as: as, fits: sync.OnceValue(func() error { return s.CheckTeacher(a.Local) }), model: func() *trinity.Model {
			return &trinity.Model{Sampler: sampler, Renderer: a.Text, MaxModelLen: config.Value(0, a.MaxModelLen), Params: trinity.SamplingParams{
				Temperature: float32(*a.Temperature), TopP: float32(*a.TopP), TopK: *a.TopK, RepetitionPenalty: float32(*a.RepetitionPenalty),
				MaxTokens: config.Value(0, a.MaxResponseTokens), MinTokens: *a.MinResponseTokens, Untrained: true,
			}}
		}}
		if c, ok := sampler.(io.Closer); ok {
			h.opened = append(h.opened, c.Close)
		}
		h.askers[a.Name] = open
	}
	return nil
}

// Asker implements explorer.Host.
func (h *Host) Asker(task *trinity.Task, name string, own func(*trinity.Model) *trinity.Model) (trinity.Asker, error) {
	if name == trinity.PolicyAsker {
		m, err := h.Model(task, "")
		if err != nil {
			return nil, err
		}
		return own(m).Asker(name), nil
	}
	if a, ok := settle.AskedBy(h.stage.Settled, name); ok {
		name = a.Name
	}
	switch one, ok := h.askers[name]; {
	case !ok:
		return nil, fmt.Errorf("no model is called %q: the plug-in must list it in its Requirements, and explorer.auxiliary_models "+
			"must have it (open are %s)", name, strings.Join(slices.Sorted(maps.Keys(h.askers)), ", "))
	case one.model != nil:
		m := own(one.model())
		return cachingAsker{m.Asker(name), &h.answered, name, one, m.Params.Seed}, nil
	default:
		return cachingAsker{one.beyond, &h.answered, name, one, 0}, nil
	}
}

var errChatAPI = errors.New("it is asked over a chat API (engine_type: external), which scores no tokens: use a model with a model_path")

// replyCache holds the answers of models that rollouts ask. Nobody asks the same question twice, also not
// after a kill.
type replyCache struct {
	answers *durable.Answers // nil until open

	mu     sync.Mutex
	asking map[string]chan struct{} // closed when the question under this key is no longer asked
}

func (k *replyCache) open(dir string) (err error) {
	k.asking = map[string]chan struct{}{}
	k.answers, err = durable.OpenAnswers(dir)
	return err
}

func (k *replyCache) close() error {
	if k.answers == nil {
		return nil
	}
	return k.answers.Close()
}

// turn returns once nobody else asks the question under a key. The caller must call done.
func (k *replyCache) turn(ctx context.Context, key string) (done func(), err error) {
	for {
		k.mu.Lock()
		other, ok := k.asking[key]
		if !ok {
			own := make(chan struct{})
			k.asking[key] = own
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				delete(k.asking, key)
				close(own)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// cachingAsker asks a model the questions whose answers are not kept.
type cachingAsker struct {
	trinity.Asker
	cache *replyCache
	name  string
	of    asker
	seed  uint64 // of a model of this process
}

// Ask implements [trinity.Asker].
func (a cachingAsker) Ask(ctx context.Context, messages []trinity.Message, o trinity.AskOptions) (trinity.Answer, error) {
	if o.Keep == nil {
		return a.Asker.Ask(ctx, messages, o)
	}
	if o.Seed != nil {
		a.seed = *o.Seed
	}
	if o.Temperature != nil && *o.Temperature == 0 {
		a.seed = 0 // every seed gives the same answer
	}
	question := []any{a.of.as, a.seed, messages, o.Temperature, o.MaxTokens}
	if o.TopP != nil {
		question = append(question, *o.TopP)
	}
	settings, err := json.Marshal(question)
	if err != nil {
		return trinity.Answer{}, err
	}
	sum := sha256.Sum256(settings)
	key := string(sum[:])
	done, err := a.cache.turn(ctx, key)
	if err != nil {
		return trinity.Answer{}, trinity.NoAnswer(a.name, trinity.AskTimedOut, err)
	}
	defer done()
	if answer, ok, err := a.known(key); err != nil || ok && o.Keep(answer) == nil {
		return answer, err
	}
	answer, err := a.Asker.Ask(ctx, messages, o)
	if err != nil || o.Keep(answer) != nil {
		return answer, err
	}
	data, err := json.Marshal(answer)
	if err == nil {
		err = a.cache.answers.Put(key, data)
	}
	return answer, a.broken(err)
}

// Logprobs returns the log-probability of each of the policy's tokens after the first.
func (a cachingAsker) Logprobs(ctx context.Context, tokens []int32) ([]float32, error) {
	scorer, scores := a.Asker.(interface {
		Logprobs(ctx context.Context, tokens []int32) ([]float32, error)
	})
	if err := a.of.fits(); err != nil || !scores {
		return nil, trinity.NoAnswer(a.name, trinity.AskRefused, cmp.Or(err, errChatAPI))
	}
	return scorer.Logprobs(ctx, tokens)
}

// known returns the answer that is kept under a key.
func (a cachingAsker) known(key string) (answer trinity.Answer, ok bool, err error) {
	data, ok, err := a.cache.answers.Answer(key)
	if ok && err == nil {
		err = json.Unmarshal(data, &answer)
	}
	return answer, ok, a.broken(err)
}

// broken returns an error of the disk as one that ends the run.
func (a cachingAsker) broken(err error) error {
	if err == nil {
		return nil
	}
	return &trinity.EngineError{Err: fmt.Errorf("the answers of model %s: %w", a.name, err)}
}

// openRewardModels opens the reward models that the tasks require, each once for all plug-ins that require it.
func (h *Host) openRewardModels(ctx context.Context) error {
	for _, r := range h.stage.Rewards {
		if h.rewardModels[r.Path] != nil {
			continue
		}
		opened, err := h.stage.OpenScorer(ctx, r.Local)
		if err != nil {
			return h.stage.At(r.Key, "reward model: "+err.Error(), "")
		}
		h.rewardModels[r.Path] = opened
		h.opened = append(h.opened, opened.Scorer.Close)
	}
	return nil
}
