package host

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

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
	as    any    // the model and its settings, for the key
	seed  uint64 // of a model of this process
}

// Ask implements [trinity.Asker].
func (a cachingAsker) Ask(ctx context.Context, messages []trinity.Message, o trinity.AskOptions) (trinity.Answer, error) {
	if o.Keep == nil {
		return a.Asker.Ask(ctx, messages, o)
	}
	if o.Temperature != nil && *o.Temperature == 0 {
		a.seed = 0 // every seed gives the same answer
	}
	settings, err := json.Marshal([]any{a.as, a.seed, messages, o.Temperature, o.MaxTokens})
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
