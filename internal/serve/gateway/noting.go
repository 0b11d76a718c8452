package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
)

// noting is a model of a session, which notes why its calls fail. A program that ends because of that has failed by it,
// whatever the program makes of it: clients of all languages have errors of their own.
type noting struct {
	openai.Model
	session *session
	kind    trinity.FailureKind // of a failure that has none
}

func newNoting(s *session, m openai.Model) openai.Model {
	kind := trinity.FailedAgent // it has asked what the policy cannot answer
	if _, ok := m.(*auxiliaryModel); ok {
		kind = trinity.FailedModel
	}
	return noting{m, s, kind}
}

// Chat implements [openai.Model].
func (m noting) Chat(messages []trinity.Message, tools json.RawMessage, begun bool) (*openai.Call, error) {
	return m.note(m.Model.Chat(messages, tools, begun))
}

// Text implements [openai.Model].
func (m noting) Text(prompt []int32) (*openai.Call, error) { return m.note(m.Model.Text(prompt)) }

func (m noting) note(call *openai.Call, err error) (*openai.Call, error) {
	begun := m.session.begin(0)
	if err != nil {
		m.noteCall(begun, err)
		return nil, err
	}
	sample := call.Sample
	call.Sample = func(ctx context.Context, p trinity.SamplingParams) ([]openai.Reply, error) {
		replies, err := sample(ctx, p)
		if ctx.Err() == nil { // else the client has given the call up
			m.noteCall(begun, err)
		}
		return replies, err
	}
	return call, nil
}

// noteCall notes the outcome of a call that began at a time of the session's clock. A success excuses the failures before
// the call began.
func (m noting) noteCall(begun int, err error) {
	s := m.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	if err != nil {
		s.refused, s.refusedAt = &trinity.RolloutError{Kind: kindOf(err, m.kind), Err: err}, s.clock
	} else if s.refusedAt < begun {
		s.refused = nil
	}
}

// kindOf returns the kind of a failed call. A prompt that is too long is what it is in a workflow in Go.
func kindOf(err error, otherwise trinity.FailureKind) trinity.FailureKind {
	if p := (*openai.Problem)(nil); errors.As(err, &p) && p.Code == openai.CodeTooLong && otherwise == trinity.FailedAgent {
		return trinity.FailedWorkflow
	}
	return trinity.KindOf(err, otherwise)
}
