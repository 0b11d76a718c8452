package trinitytest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
)

// Asker tests what each model that is asked in words must do: it answers as the assistant, leaves the
// question as it is, takes several questions at once, and after the end of its context says that no
// answer came in time.
func Asker(t *testing.T, a trinity.Asker) {
	question := []trinity.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "1 + 1"}}
	ask := func(ctx context.Context) (trinity.Answer, error) {
		return a.Ask(ctx, question, trinity.AskOptions{Temperature: new(float32(0)), MaxTokens: 8})
	}
	t.Run("answers", func(t *testing.T) {
		before := slices.Clone(question)
		answer, err := ask(t.Context())
		if err != nil || answer.Message.Role != "assistant" {
			t.Errorf("%+v, %v", answer, err)
		}
		if !reflect.DeepEqual(question, before) {
			t.Errorf("the question became %+v", question)
		}
	})
	t.Run("several at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := ask(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("after the end of its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := ask(ctx)
		var failed *trinity.AskError
		var rollout *trinity.RolloutError
		if !errors.As(err, &failed) || failed.Reason != trinity.AskTimedOut || !errors.As(err, &rollout) || rollout.Kind != trinity.FailedModel {
			t.Errorf("error %v, want an AskError %s in a failure of a model", err, trinity.AskTimedOut)
		}
	})
}
