package trinity_test

import (
	"context"
	"errors"
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
