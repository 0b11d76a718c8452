package trinity

import (
	"context"
	"errors"
	"fmt"
)

// PolicyAsker is the name by which a plug-in asks the policy itself, with Host.Asker.
const PolicyAsker = "policy"

// Asker is a model that is asked in words: a judge, a grader, a simulated user. Nothing that it writes
// is trained on. Many goroutines may ask it at once.
type Asker interface {
	// Ask returns the model's answer. The error is an AskError, unless the engine failed.
	Ask(ctx context.Context, messages []Message, o AskOptions) (Answer, error)
}

// AskOptions say how an answer is sampled.
type AskOptions struct {
	Temperature *float32 // nil is the model's own
	TopP        *float32 // nil is the model's own
	MaxTokens   int      // 0 is the model's own
	Seed        *uint64  // nil is the asker's own

	// Keep returns why an answer cannot be used, or nil. The run keeps a usable answer, also across a
	// kill, and gives it to everybody who asks the same model the same question with the same settings.
	// Without Keep every question is asked. The policy is always asked, because its weights change.
	Keep func(Answer) error
}

// Answer is what an Asker answered.
type Answer struct {
	Message Message
	Version int64 // of the weights that wrote it, if a run trains them
}

// AskReason says why there is no answer.
type AskReason string

// The reasons why there is no answer. None of them is an answer, so none gives reward 0.
const (
	AskUnreadable  AskReason = "unreadable"  // the answer is not in the form that was asked for
	AskRefused     AskReason = "refused"     // the model or its server declined the question
	AskTimedOut    AskReason = "timed out"   // no answer came in time
	AskUnreachable AskReason = "unreachable" // nobody answers at the address
)

// AskError says why an Asker gave no answer that can be used.
type AskError struct {
	Asker  string // by its name
	Reason AskReason
	Err    error
}

func (e *AskError) Error() string { return fmt.Sprintf("model %s: %s: %v", e.Asker, e.Reason, e.Err) }
func (e *AskError) Unwrap() error { return e.Err }

// NoAnswer returns an AskError as the failure of a rollout.
func NoAnswer(asker string, reason AskReason, err error) error {
	return &RolloutError{Kind: FailedModel, Err: &AskError{asker, reason, err}}
}

// Asker returns the model as one that is asked in words, under a name. What it answers is in no
// experience.
func (m *Model) Asker(name string) Asker { return askedModel{m, name} }

type askedModel struct {
	*Model
	name string
}

// Ask implements Asker.
func (a askedModel) Ask(ctx context.Context, messages []Message, o AskOptions) (Answer, error) {
	prompt, err := a.Renderer.Render(messages, nil, true)
	if err != nil {
		return Answer{}, NoAnswer(a.name, AskRefused, err)
	}
	c, err := a.call(ctx, Prompt{Tokens: prompt, Messages: messages}, func(p *SamplingParams) {
		if o.Temperature != nil {
			p.Temperature = *o.Temperature
		}
		if o.TopP != nil {
			p.TopP = *o.TopP
		}
		if o.MaxTokens > 0 {
			p.MaxTokens = o.MaxTokens
		}
		if o.Seed != nil {
			p.Seed = *o.Seed
		}
	})
	switch {
	case errors.Is(err, ErrNoRoom):
		return Answer{}, NoAnswer(a.name, AskRefused, fmt.Errorf("the question has %d tokens and leaves no room for an answer in %d",
			len(prompt), a.MaxModelLen))
	case err != nil && ctx.Err() != nil:
		return Answer{}, NoAnswer(a.name, AskTimedOut, err)
	case err != nil:
		return Answer{}, err
	}
	message, _, _ := a.Renderer.Read(c.Tokens, nil) // a call of a tool is part of the answer's text
	return Answer{Message: message, Version: c.Versions[1]}, nil
}

// Logprobs is [Model.Logprobs] of a model that must score tokens.
func (a askedModel) Logprobs(ctx context.Context, tokens []int32) ([]float32, error) {
	out, err := a.Model.Logprobs(ctx, tokens)
	switch {
	case errors.Is(err, ErrNoRoom):
		return nil, NoAnswer(a.name, AskRefused, fmt.Errorf("there are %d tokens, and its max_model_len is %d", len(tokens), a.MaxModelLen))
	case err != nil && ctx.Err() != nil:
		return nil, NoAnswer(a.name, AskTimedOut, err)
	case err == nil && out == nil:
		return nil, NoAnswer(a.name, AskRefused, errors.New("its engine computes no log-probabilities of given tokens"))
	}
	return out, err
}
