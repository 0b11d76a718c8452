package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
)

// Asker is a chat model behind a server. It implements [trinity.Asker].
type Asker struct {
	Client   *Client
	Name     string  // by which people know the model
	Sampling Request // the model's name on its server, and how it samples

	lost atomic.Int64 // questions in a row that found nobody at the address
}

// maxLost is the number of questions in a row, each with its retries, that may find nobody at the
// address before the run ends.
const maxLost = 10

// Ask implements [trinity.Asker]. After maxLost questions in a row that found nobody the error is a
// [trinity.EngineError], which ends the run.
func (a *Asker) Ask(ctx context.Context, messages []trinity.Message, o trinity.AskOptions) (trinity.Answer, error) {
	q := a.Sampling
	q.Messages = messages
	if o.Temperature != nil {
		q.Temperature = o.Temperature
	}
	if o.TopP != nil {
		q.TopP = o.TopP
	}
	if o.Seed != nil {
		q.Seed = new(int64(*o.Seed))
	}
	if o.MaxTokens > 0 {
		q.MaxTokens = &o.MaxTokens
	}
	body, err := json.Marshal(q)
	if err != nil {
		return trinity.Answer{}, err
	}
	address, err := a.Client.Address("chat/completions")
	if err != nil {
		return trinity.Answer{}, trinity.NoAnswer(a.Name, trinity.AskUnreachable, err)
	}
	reply, err := a.Client.Post(ctx, address, body)
	if err != nil {
		return trinity.Answer{}, a.failed(ctx, err)
	}
	a.lost.Store(0)
	m, reason, err := readReply(reply)
	if err != nil {
		return trinity.Answer{}, trinity.NoAnswer(a.Name, reason, err)
	}
	return trinity.Answer{Message: m}, nil
}

// failed returns the error of a question that was not answered.
func (a *Asker) failed(ctx context.Context, err error) error {
	status := (*retry.StatusError)(nil)
	switch {
	case ctx.Err() != nil, errors.Is(err, retry.ErrLate):
		return trinity.NoAnswer(a.Name, trinity.AskTimedOut, err)
	case errors.As(err, &status) && !mayPass(status.Code):
		return trinity.NoAnswer(a.Name, trinity.AskRefused, err)
	case a.lost.Add(1) >= maxLost:
		return &trinity.EngineError{Err: fmt.Errorf("model %s was unreachable for %d questions in a row: %w", a.Name, maxLost, err)}
	}
	return trinity.NoAnswer(a.Name, trinity.AskUnreachable, err)
}

// readReply returns the message in the body of a reply, or why there is none.
func readReply(body []byte) (m trinity.Message, why trinity.AskReason, err error) {
	var reply struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				Content   *string `json:"content"`
				Reasoning string  `json:"reasoning_content"`
				Refusal   string  `json:"refusal"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(body, &reply); err != nil || len(reply.Choices) == 0 {
		return m, trinity.AskUnreadable, fmt.Errorf("the answer is no chat completion: %s", retry.OneLine(body))
	}
	c := reply.Choices[0]
	switch {
	case c.Message.Refusal != "":
		return m, trinity.AskRefused, errors.New(retry.OneLine([]byte(c.Message.Refusal)))
	case c.FinishReason == "content_filter":
		return m, trinity.AskRefused, errors.New("the server's filter withholds the answer")
	case c.Message.Content == nil:
		return m, trinity.AskUnreadable, fmt.Errorf("the answer has no content: %s", retry.OneLine(body))
	}
	return trinity.Message{Role: "assistant", Content: *c.Message.Content, Reasoning: c.Message.Reasoning}, "", nil
}
