package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
)

// Asker is a chat model behind a server. It implements [trinity.Asker].
type Asker struct {
	Client   *Client
	Name     string  // by which people know the model
	Sampling Request // the model's name on its server, and how it samples
	KeyEnv   string  // environment variable with the key, for errors

	// MaxRequests and MaxTokens, of prompts and answers as the server counts them, end the run before a question beyond them, when
	// those in flight are answered; 0 is no limit. Questions in flight may exceed MaxTokens.
	MaxRequests, MaxTokens int

	lost        atomic.Int64 // questions in a row without a server at the address
	barred      atomic.Int64 // questions in a row that the server did not let in
	answered    atomic.Bool
	asked, paid atomic.Int64 // requests and tokens so far

	inFlight sync.WaitGroup // questions that the limits allow
	limits   sync.Mutex     // orders the beginning of questions and the wait for those in flight
}

const (
	// maxLost is the number of questions in a row, each with its retries, that may find no server at
	// the address before the run ends, or that the server may bar after it has answered others.
	maxLost = 10
	// maxBarred is the number of first questions that the server may bar.
	maxBarred = 3
)

// Ask implements [trinity.Asker]. After maxLost questions in a row without a server the error is a
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
	m, _, err := a.Reply(ctx, &q)
	return trinity.Answer{Message: m}, err
}

// Reply sends a chat and returns the model's message, and whether it ended with "stop" or "length". Its errors are those of Ask.
func (a *Asker) Reply(ctx context.Context, q *Request) (m trinity.Message, finish string, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return m, "", err
	}
	address, err := a.Client.Address("chat/completions")
	if err != nil {
		return m, "", trinity.NoAnswer(a.Name, trinity.AskUnreachable, err)
	}
	if err := a.spend(); err != nil {
		a.inFlight.Wait() // so that the caller's error, which ends the run, discards no answer that costs
		return m, "", err
	}
	defer a.inFlight.Done()
	reply, err := a.Client.Post(ctx, address, body)
	if err != nil {
		return m, "", a.failed(ctx, err)
	}
	a.lost.Store(0)
	a.barred.Store(0)
	a.answered.Store(true)
	r, reason, err := readReply(reply)
	a.paid.Add(int64(r.paid))
	switch {
	case err != nil:
		return m, "", trinity.NoAnswer(a.Name, reason, err)
	case a.MaxTokens > 0 && r.paid == 0:
		return m, "", &trinity.EngineError{Err: fmt.Errorf("model %s: max_tokens is set, and the server does not say how many tokens "+
			"an answer costs (usage): set max_requests instead", a.Name)}
	}
	return r.Message, r.finish, nil
}

// spend counts a request in flight, or returns an error that ends the run if it is beyond a limit.
func (a *Asker) spend() error {
	a.limits.Lock()
	defer a.limits.Unlock()
	over := func(key string, limit int) error {
		return &trinity.EngineError{Err: fmt.Errorf("model %s: %s %d is reached: raise it, and run the same command to resume; the run then "+
			"counts from 0 and repeats its incomplete step, so it needs what a step takes, or more", a.Name, key, limit)}
	}
	switch {
	case a.MaxRequests > 0 && a.asked.Load() >= int64(a.MaxRequests):
		return over("max_requests", a.MaxRequests)
	case a.MaxTokens > 0 && a.paid.Load() >= int64(a.MaxTokens):
		return over("max_tokens", a.MaxTokens)
	}
	a.asked.Add(1)
	a.inFlight.Add(1)
	return nil
}

// failed returns the error of a question that was not answered.
func (a *Asker) failed(ctx context.Context, err error) error {
	status := (*retry.StatusError)(nil)
	switch {
	case ctx.Err() != nil, errors.Is(err, retry.ErrLate):
		return trinity.NoAnswer(a.Name, trinity.AskTimedOut, err)
	case errors.As(err, &status) && a.bars(status.Code):
		return &trinity.EngineError{Err: fmt.Errorf("model %s: %s: %w", a.Name, a.barrier(status), err)}
	case errors.As(err, &status) && !mayPass(status.Code):
		if status.Code != http.StatusForbidden && status.Code != http.StatusNotFound {
			a.barred.Store(0)
		}
		return trinity.NoAnswer(a.Name, trinity.AskRefused, err)
	case a.lost.Add(1) >= maxLost:
		return &trinity.EngineError{Err: fmt.Errorf("model %s was unreachable for %d questions in a row: %w", a.Name, maxLost, err)}
	}
	return trinity.NoAnswer(a.Name, trinity.AskUnreachable, err)
}

// bars reports whether a status says that no question will be answered. A filter of some servers answers single questions with
// 403, so some may be barred, also the first.
func (a *Asker) bars(code int) bool {
	switch code {
	case http.StatusUnauthorized:
		return true
	case http.StatusForbidden, http.StatusNotFound:
		if a.answered.Load() {
			return a.barred.Add(1) >= maxLost
		}
		return a.barred.Add(1) >= maxBarred
	}
	return false
}

// barrier says what bars the questions, and where the configuration has it.
func (a *Asker) barrier(status *retry.StatusError) string {
	switch {
	case status.Code == http.StatusNotFound:
		return fmt.Sprintf("%s knows no such model or path (model_name, base_url)", status.Host)
	case a.Client.Key == NoKey && a.KeyEnv != "":
		return fmt.Sprintf("%s wants a key, and the environment variable %s (api_key_env) is not set", status.Host, a.KeyEnv)
	}
	refused := "the key"
	if status.Code == http.StatusForbidden {
		refused = "the question or the key"
	}
	if a.KeyEnv != "" {
		refused += fmt.Sprintf(" in the environment variable %s (api_key_env)", a.KeyEnv)
	}
	return status.Host + " refuses " + refused
}

// replied is what a server answered.
type replied struct {
	trinity.Message
	finish string // "stop" or "length"
	paid   int    // tokens of prompt and answer; 0 if the server does not say
}

// readReply returns what the body of a reply says, or why it is no answer.
func readReply(body []byte) (r replied, why trinity.AskReason, err error) {
	var reply struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				Content   *string    `json:"content"`
				Reasoning string     `json:"reasoning_content"`
				Refusal   string     `json:"refusal"`
				Calls     []ToolCall `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
		Usage Usage `json:"usage"`
	}
	if err := json.Unmarshal(body, &reply); err != nil || len(reply.Choices) == 0 {
		return r, trinity.AskUnreadable, fmt.Errorf("the answer is no chat completion: %s", retry.OneLine(body))
	}
	c := reply.Choices[0]
	r.paid = max(reply.Usage.TotalTokens, reply.Usage.PromptTokens+reply.Usage.CompletionTokens)
	switch {
	case c.Message.Refusal != "":
		return r, trinity.AskRefused, errors.New(retry.OneLine([]byte(c.Message.Refusal)))
	case c.FinishReason == "content_filter":
		return r, trinity.AskRefused, errors.New("the server's filter withholds the answer")
	case c.Message.Content == nil && len(c.Message.Calls) == 0:
		return r, trinity.AskUnreadable, fmt.Errorf("the answer has no content: %s", retry.OneLine(body))
	}
	r.Message = trinity.Message{Role: "assistant", Reasoning: c.Message.Reasoning}
	if c.Message.Content != nil {
		r.Content = *c.Message.Content
	}
	var calls []trinity.ToolCall
	for _, call := range c.Message.Calls {
		if !json.Valid([]byte(call.Function.Arguments)) {
			return r, trinity.AskUnreadable, fmt.Errorf("the arguments of a call of %s are no JSON: %.80s", call.Function.Name,
				call.Function.Arguments)
		}
		calls = append(calls, trinity.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: json.RawMessage(call.Function.Arguments)})
	}
	if calls != nil {
		r.ToolCalls, err = json.Marshal(calls)
	}
	if r.finish = "stop"; c.FinishReason == "length" {
		r.finish = c.FinishReason
	}
	return r, "", err
}
