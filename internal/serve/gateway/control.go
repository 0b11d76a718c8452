package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/wire/score"
)

// done is the reply to a request that needs none.
type done struct {
	OK bool `json:"ok"`
}

// notFinite are what many languages write for numbers that are not finite.
var notFinite = []string{"NaN", "Infinity"}

// decode reads a strict JSON object.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if broken := (*json.SyntaxError)(nil); errors.As(err, &broken) { // as Python writes numbers that are not finite
			rest := string(data[min(max(0, broken.Offset-1), int64(len(data))):])
			for _, word := range notFinite {
				if strings.HasPrefix(rest, word) {
					err = fmt.Errorf("%w: JSON has no number %s", err, word)
				}
			}
		}
		return openai.NotJSON(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return openai.Bad("", "the request has more than one JSON value")
	}
	return nil
}

// numbers are named numbers. A null, which nothing has measured, is no number 0.
type numbers map[string]float64

// UnmarshalJSON reads an object of numbers.
func (n *numbers) UnmarshalJSON(data []byte) error {
	var given map[string]*float64
	if err := json.Unmarshal(data, &given); err != nil {
		return err
	}
	*n = make(numbers, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if given[name] == nil {
			return fmt.Errorf("%.70q is null: leave it out", name)
		}
		(*n)[name] = *given[name]
	}
	return nil
}

// rewardOf returns the reward of a value, of parts or of both; nil if there is neither.
func rewardOf(value *float64, parts map[string]float64) (*trinity.Reward, error) {
	if value == nil && len(parts) == 0 {
		return nil, nil
	}
	if err := score.CheckParts(parts); err != nil {
		return nil, err
	}
	r := trinity.NewReward(parts)
	if value != nil {
		r.Value = *value
	}
	return &r, nil
}

// takeReward takes the reward of the rollout, or with turn that of one of its calls.
func (s *session) takeReward(data []byte) (any, error) {
	var in struct {
		Value *float64 `json:"value"`
		Parts numbers  `json:"parts"`
		Turn  *int     `json:"turn"`
	}
	if err := decode(data, &in); err != nil {
		return nil, err
	}
	r, err := rewardOf(in.Value, in.Parts)
	switch {
	case err != nil:
		return nil, openai.Bad("parts", "%v", err)
	case r == nil:
		return nil, openai.Bad("value", `there is no reward: want {"value": number, "parts": {…}}, with either or both`)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committed {
		return nil, errEnded
	}
	if in.Turn == nil {
		if err := s.note(&entry{Kind: entryReward, Reward: r}); err != nil {
			return nil, err
		}
		s.reward = r
		return done{true}, nil
	}
	p := s.posted[*in.Turn]
	switch {
	case s.posted != nil && p == nil:
		return nil, openai.Bad("turn", "no posted experience ends with call %d: post them anew", *in.Turn)
	case s.posted == nil && !s.options.Steps:
		return nil, openai.Bad("turn", "the calls of this rollout have no rewards of their own: leave turn out, "+
			"make each call an experience (steps: true), or post experiences first")
	}
	n := received(s.nodes, *in.Turn)
	if n == nil {
		return nil, openai.Bad("turn", noCall, *in.Turn)
	}
	if err := s.note(&entry{Kind: entryReward, Reward: r, Turns: []int{*in.Turn}}); err != nil {
		return nil, err
	}
	if n.reward = r; p != nil {
		p.reward = nil // the newest reward counts
	}
	return done{true}, nil
}

// failureKinds are the kinds that a program may report.
var failureKinds = []trinity.FailureKind{
	trinity.FailedAgent, trinity.FailedEnvironment, trinity.FailedTool, trinity.FailedReward, trinity.FailedModel, trinity.FailedTimeout,
}

// maxReason bounds the bytes of a failure's reason, which becomes a line of a log.
const maxReason = 1000

// takeFailure takes the failure of the rollout: it then has no reward.
func (s *session) takeFailure(data []byte) (any, error) {
	in := struct {
		Kind   trinity.FailureKind `json:"kind"`
		Reason string              `json:"reason"`
	}{Kind: trinity.FailedAgent, Reason: "the program gave no reason"}
	if err := decode(data, &in); err != nil {
		return nil, err
	}
	if !slices.Contains(failureKinds, in.Kind) {
		return nil, openai.Bad("kind", "kind is %q; want one of %v", in.Kind, failureKinds)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committed {
		return nil, errEnded
	}
	reason := strings.Join(strings.Fields(in.Reason), " ")
	reason = reason[:min(len(reason), maxReason)]
	if err := s.note(&entry{Kind: entryFailure, Failed: in.Kind, Reason: reason}); err != nil {
		return nil, err
	}
	s.failure = &trinity.RolloutError{Kind: in.Kind, Err: errors.New(reason)}
	return done{true}, nil
}

// takeCommit ends the rollout: nothing is added to it any more.
func (s *session) takeCommit([]byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committed {
		return nil, errEnded
	}
	if s.write != nil && s.reward == nil && s.failure == nil {
		return nil, openai.Bad("", "the rollout has no reward: post one, or a failure, and then commit")
	}
	if err := s.note(&entry{Kind: entryCommit}); err != nil {
		return nil, err
	}
	s.committed = true
	if s.options.Committed != nil {
		s.options.Committed()
	}
	return done{true}, nil
}

// describe returns the tree of calls.
func (s *session) describe([]byte) (any, error) {
	type reply struct {
		Turn     int  `json:"turn"`
		After    *int `json:"after"` // turn of the reply that it continues; null if it begins a chat
		Tokens   int  `json:"tokens"`
		Received bool `json:"received"`
		// Learn are the places of the replies in the response of the sequence that ends with this one.
		Learn ranges `json:"learn,omitempty"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := struct {
		Calls     int     `json:"calls"`
		Tokens    int     `json:"tokens"` // that the policy wrote
		Committed bool    `json:"committed"`
		Replies   []reply `json:"replies"`
	}{s.calls, s.model.SampledTokens(), s.committed, []reply{}}
	for _, n := range s.nodes {
		r := reply{Turn: n.number, Tokens: n.sampled, Received: n.received > 0}
		if n.parent != nil {
			r.After = &n.parent.number
		}
		if n.sequence != nil { // an earlier process had the others
			r.Learn, _ = places(n.path(s.options.Steps))
		}
		out.Replies = append(out.Replies, r)
	}
	return out, nil
}
