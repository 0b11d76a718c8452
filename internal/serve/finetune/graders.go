package finetune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// graders score replies, and check grader objects.
type graders struct {
	build func(object map[string]any) (trinity.RewardFunc, error)
	slots chan struct{} // of requests that are graded at once: a program may take gigabytes
}

// check returns a grader object, or what is wrong with it. param is its place in the request.
func (g graders) check(text json.RawMessage, param string) (map[string]any, error) {
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return nil, openai.Bad(param, "want a grader object, got %.80s", bytes.TrimSpace(text))
	}
	if object["type"] == "label_model" {
		return nil, openai.Bad(param, "a label_model stands inside a multi grader alone, as in OpenAI's API")
	}
	if _, err := g.build(object); err != nil {
		return nil, openai.Bad(param, "%s", err)
	}
	return object, nil
}

// itemOf returns what checks that a row has what a grader reads of it.
func (g graders) itemOf(grader json.RawMessage) (func(map[string]any) error, error) {
	var object map[string]any
	if err := json.Unmarshal(grader, &object); err != nil {
		return nil, err
	}
	reward, err := g.build(object)
	if err != nil {
		return nil, err
	}
	check := trinity.RequirementsOf(reward).CheckTask
	return func(row map[string]any) error {
		if check == nil {
			return nil
		}
		return check(&trinity.Task{Row: row})
	}, nil
}

// validate checks a grader object.
func (g graders) validate(_ string, _ *http.Request, body []byte) (any, error) {
	var in struct {
		Grader json.RawMessage `json:"grader"`
	}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	object, err := g.check(in.Grader, "grader")
	if err != nil {
		return nil, err
	}
	return map[string]any{"grader": object}, nil
}

// run scores one reply.
func (g graders) run(_ string, r *http.Request, body []byte) (any, error) {
	var in wire.GraderRun
	if err := read(body, &in); err != nil {
		return nil, err
	}
	object, err := g.check(in.Grader, "grader")
	if err != nil {
		return nil, err
	}
	if asked := modelsOf(object); len(asked) > 0 {
		return nil, openai.Bad("grader", "the grader asks the model %s: here only graders without a model run; those of a job ask the models "+
			"of this service", strings.Join(asked, ", "))
	}
	scorer, err := g.build(object)
	if err != nil {
		return nil, err
	}
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	began := time.Now()
	reward, err := scorer.Score(r.Context(), trinity.RewardInput{
		Task: &trinity.Task{Row: in.Item}, Response: in.Sample, Messages: []trinity.Message{{Role: "assistant", Content: in.Sample}},
	})
	if err != nil && r.Context().Err() != nil {
		return nil, errors.New("the client has gone")
	}
	name, _ := object["name"].(string)
	kind, _ := object["type"].(string)
	out := wire.GraderScore{
		SubRewards: map[string]float64{}, TokenUsage: map[string]int64{},
		Metadata: wire.GraderMetadata{Name: name, Type: kind, ExecutionTime: time.Since(began).Seconds(), Scores: map[string]float64{}},
	}
	reason := reward.Reason
	switch {
	case err != nil:
		reason = fmt.Sprintf("other_error: %v", err)
	case reward.Valid:
		reason, out.Reward, out.SubRewards = "", &reward.Value, maps.Clone(reward.Parts)
		out.Metadata.Scores = maps.Clone(reward.Parts)
		delete(out.SubRewards, name) // the reward itself
	}
	out.Metadata.Errors = wire.GraderErrors(reason)
	return out, nil
}
