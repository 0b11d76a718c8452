package served

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity/internal/retry"
)

// stream asks /v1/completions for a stream, and passes tokens on as they come. Each event has the ids and
// log-probabilities of its tokens; the first one has the prompt, the last one the usage.
func (s *vllmServer) stream(ctx context.Context, r any, q *query) (*answer, error) {
	a := &answer{}
	err := s.client.Stream(ctx, "/v1/completions", r, func(data []byte) error {
		var event vllmReply
		switch err := json.Unmarshal(data, &event); {
		case err != nil:
			return fmt.Errorf("an event of its stream is not the JSON that was expected: %w: %s", err, retry.OneLine(data))
		case event.Error != nil:
			return retry.Temporary(errors.New(event.Error.Message))
		case len(event.Choices) == 0: // after the last token
			a.count(event.Usage)
			return nil
		}
		part, err := event.answer(q)
		if err != nil {
			return err
		}
		a.add(part)
		q.tell(a)
		return nil
	})
	return a, err
}

// add appends the next part of a reply.
func (a *answer) add(part *answer) {
	a.tokens, a.logprobs, a.top = append(a.tokens, part.tokens...), append(a.logprobs, part.logprobs...), append(a.top, part.top...)
	a.weights = append(a.weights, part.weights...)
	if part.finish != "" {
		a.finish = part.finish
	}
	if a.prompt == nil {
		a.prompt = part.prompt
	}
}
