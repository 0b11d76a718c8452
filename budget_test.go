package trinity_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// A rollout samples no more tokens than it may: its last reply is cut, and then it has no room.
func TestARolloutHasItsTokens(t *testing.T) {
	for limit := 1; limit <= 30; limit++ {
		m := talker(newHasher(), chatty{})
		m.MaxTokens = limit
		d, replies := m.Dialogue(nil), 0
		for {
			d.Add(trinity.Message{Role: "user", Content: "go on"})
			reply, err := d.Reply(context.Background())
			if errors.Is(err, trinity.ErrNoTokens) && errors.Is(err, trinity.ErrNoRoom) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			replies++
			if left := limit - m.SampledTokens(); left < 0 || (left > 0) == (reply.FinishReason == "length") && left > 0 {
				t.Fatalf("limit %d: %d tokens are left after reply %d, which ends by %s", limit, left, replies, reply.FinishReason)
			}
		}
		if m.SampledTokens() != limit || d.Whole()[0].TrainedTokens() != limit {
			t.Errorf("%d tokens are sampled and %d trained, want %d", m.SampledTokens(), d.Whole()[0].TrainedTokens(), limit)
		}
		d = m.Dialogue(nil)
		d.Add(trinity.Message{Role: "user", Content: "anew"})
		if _, err := d.Reply(context.Background()); err == nil || errors.Is(err, trinity.ErrNoRoom) {
			t.Errorf("a dialogue without any token ends with %v, as if it had a reply", err)
		}
		if _, err := m.Generate(context.Background(), []int32{1}); !errors.Is(err, trinity.ErrNoTokens) {
			t.Errorf("a further call: %v", err)
		}
	}
}

// late is a sampler whose call runs out of its own time.
type late struct{}

func (late) Sample(context.Context, trinity.Prompt, trinity.SamplingParams) ([]trinity.Completion, error) {
	return nil, &trinity.RolloutError{Kind: trinity.FailedTimeout, Err: errors.New("its time has passed")}
}

func TestACallOutOfTimeIsNoFailureOfTheEngine(t *testing.T) {
	m := talker(newHasher(), chatty{})
	m.Sampler = late{}
	_, err := m.Generate(context.Background(), []int32{1})
	if engine := (*trinity.EngineError)(nil); errors.As(err, &engine) || trinity.KindOf(err, "") != trinity.FailedTimeout {
		t.Errorf("error %v", err)
	}
}

// free is a constraint that nobody asks.
type free struct{ trinity.Constraint }

// Tokens that are trained on come from the distribution whose log-probabilities training computes.
func TestTrainedTokensComeFromTheWholeDistribution(t *testing.T) {
	for want, p := range map[string]trinity.SamplingParams{
		"top_p 0.5": {TopP: 0.5}, "top_k 2": {TopK: 2}, "min_p 0.5": {MinP: 0.5}, "repetition_penalty 2": {RepetitionPenalty: 2},
		"presence_penalty 1": {PresencePenalty: 1}, "frequency_penalty 1": {FrequencyPenalty: 1},
		"logit_bias of 1 tokens": {LogitBias: map[int32]float32{3: 1}}, "min_tokens 2": {MinTokens: 2},
		"a constraint of the reply's text": {Constraint: free{}},
		"":                                 {Temperature: 0.5, TopP: 1, TopK: -1, RepetitionPenalty: 1, MinTokens: 1},
	} {
		if got := p.Changed(); got != want {
			t.Errorf("%+v changes by %q, want %q", p, got, want)
		}
		m := talker(newHasher(), chatty{})
		change := func(of *trinity.SamplingParams) {
			of.TopP, of.TopK, of.MinP = p.TopP, p.TopK, p.MinP
			of.RepetitionPenalty, of.MinTokens = p.RepetitionPenalty, p.MinTokens
			of.PresencePenalty, of.FrequencyPenalty, of.LogitBias = p.PresencePenalty, p.FrequencyPenalty, p.LogitBias
			of.Constraint = p.Constraint
		}
		_, err := m.Generate(context.Background(), []int32{1}, change)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want+" for tokens that are trained on")) {
			t.Errorf("%s: %v", want, err)
		}
		m.Params.Untrained = true
		if _, err := m.Generate(context.Background(), []int32{1}, change); err != nil {
			t.Errorf("%s of a rollout that nothing trains on: %v", want, err)
		}
	}
}
