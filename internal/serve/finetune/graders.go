package finetune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// graders score replies, and check grader objects.
type graders struct {
	build func(object map[string]any) (trinity.RewardFunc, error)
	asker func(owner, name string, used func(tokens int)) (trinity.Asker, error)
	names func() string // models that a grader may ask
	slots chan struct{} // of requests that are graded at once: a program may take gigabytes
	own   *sync.Map     // of each owner, who has one of the slots at most
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

// noModel returns what is wrong with a grader that asks a model that is not here. param is its place in the request.
func (g graders) noModel(param, name string) error {
	return openai.Bad(param, "the grader asks the model %.80q, which this service does not have: want one of %s", name, g.names())
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

// askerHost lets a grader ask models of the service, as a run lets it ask those of its configuration.
type askerHost struct {
	graders
	owner string

	mu   sync.Mutex
	used map[string]int64 // tokens, by models
}

var errNoRun = errors.New("a grader outside of a job has nothing of a run but models to ask")

// Asker implements [trinity.Host].
func (h *askerHost) Asker(name string) (trinity.Asker, error) {
	a, err := h.asker(h.owner, name, func(tokens int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.used[name] += int64(tokens)
	})
	if err != nil {
		return nil, trinity.NoAnswer(name, trinity.AskUnreachable, err)
	}
	return namedAsker{a, name}, nil
}

// namedAsker is a model whose failures are those of a model, whatever they are.
type namedAsker struct {
	trinity.Asker
	name string
}

// Ask implements [trinity.Asker].
func (a namedAsker) Ask(ctx context.Context, messages []trinity.Message, o trinity.AskOptions) (trinity.Answer, error) {
	answer, err := a.Asker.Ask(ctx, messages, o)
	switch {
	case err == nil || errors.As(err, new(*trinity.AskError)):
	case ctx.Err() != nil:
		err = trinity.NoAnswer(a.name, trinity.AskTimedOut, err)
	default:
		err = trinity.NoAnswer(a.name, trinity.AskUnreachable, err)
	}
	return answer, err
}

// Model implements [trinity.Host].
func (*askerHost) Model(string) (*trinity.Model, error) { return nil, errNoRun }

// RewardModel implements [trinity.Host].
func (*askerHost) RewardModel(string) (*trinity.RewardModel, error) { return nil, errNoRun }

// Dir implements [trinity.Host].
func (*askerHost) Dir(string) (string, error) { return "", errNoRun }

// Serve implements [trinity.Host].
func (*askerHost) Serve(context.Context, *trinity.Model, trinity.EndpointOptions) (trinity.Endpoint, error) {
	return nil, errNoRun
}

// Open implements [trinity.Host].
func (*askerHost) Open(string, func(io.Writer) (io.Closer, error)) (io.Closer, error) {
	return nil, errNoRun
}

// Wait implements [trinity.Host].
func (*askerHost) Wait(ctx context.Context, until func(context.Context) error) error {
	return until(ctx)
}

// Say implements [trinity.Host].
func (*askerHost) Say(string) {}

// grading bounds how long a reply is graded. A variable for tests.
var grading = 2 * time.Minute

// run scores one reply.
func (g graders) run(owner string, r *http.Request, body []byte) (any, error) {
	var in wire.GraderRun
	if err := read(body, &in); err != nil {
		return nil, err
	}
	object, err := g.check(in.Grader, "grader")
	if err != nil {
		return nil, err
	}
	host, asked := &askerHost{graders: g, owner: owner, used: map[string]int64{}}, modelsOf(object)
	for _, name := range asked {
		if _, err := host.Asker(name); err != nil {
			return nil, g.noModel("grader", name)
		}
	}
	scorer, err := g.build(object)
	if err != nil {
		return nil, err
	}
	own, _ := g.own.LoadOrStore(owner, make(chan struct{}, 1))
	for _, slots := range []chan struct{}{own.(chan struct{}), g.slots} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), grading)
	defer cancel()
	reward, err := scorer.Score(ctx, trinity.RewardInput{
		Task: &trinity.Task{Row: in.Item}, Response: in.Sample, Messages: []trinity.Message{{Role: "assistant", Content: in.Sample}},
		Host: host,
	})
	if err != nil && r.Context().Err() != nil {
		return nil, errors.New("the client has gone")
	}
	name, _ := object["name"].(string)
	kind, _ := object["type"].(string)
	out := wire.GraderScore{
		SubRewards: map[string]float64{}, TokenUsage: host.used,
		Metadata: wire.GraderMetadata{Name: name, Type: kind, ExecutionTime: time.Since(began).Seconds(), Scores: map[string]float64{}},
	}
	if len(asked) > 0 {
		sum := int64(0)
		for _, n := range host.used {
			sum += n
		}
		out.Metadata.TokenUsage = &sum
	}
	if kind == "score_model" {
		out.Metadata.SampledModel = &asked[0]
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
