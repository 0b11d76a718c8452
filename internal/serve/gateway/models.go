package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
)

// named returns the model that a request asks for by name.
func (s *session) named(name string, request identity, body []byte) (openai.Model, error) {
	if len(s.options.Models) == 0 {
		return &client{s, request}, nil
	}
	best, found := "", false
	for pattern := range s.options.Models {
		if matches(pattern, name) && (!found || cmp.Or(len(pattern)-len(best), strings.Compare(pattern, best)) > 0) {
			best, found = pattern, true
		}
	}
	if !found {
		return nil, &openai.Problem{
			Status: http.StatusNotFound, Code: "model_not_found", Param: "model", Final: true,
			Message: fmt.Sprintf("no entry of models in workflow_args matches the model %q: add one, such as \"*\": %s", name, trinity.PolicyAsker),
		}
	}
	if asker := s.options.Models[best]; asker != nil {
		return newAsked(s, asker, name, request, body)
	}
	return &client{s, request}, nil
}

// listModels lists the model's own name and the names of models in workflow_args that are no patterns,
// if requests may ask for them.
func (g *Gateway) listModels(w http.ResponseWriter, r *http.Request) {
	s, _ := r.Context().Value(sessionKey{}).(*session)
	names := []string{g.api.Name}
	for name := range s.options.Models {
		if !strings.ContainsAny(name, `*?[\`) && name != g.api.Name {
			names = append(names, name)
		}
	}
	slices.Sort(names[1:])
	openai.List(w, slices.DeleteFunc(names, func(name string) bool {
		_, err := s.named(name, identity{}, []byte("{}"))
		return err != nil
	}))
}

// matches reports whether a pattern matches the whole name of a model. Slashes in names are characters
// like others.
func matches(pattern, name string) bool {
	plain := strings.NewReplacer("/", "\x00")
	ok, err := path.Match(plain.Replace(pattern), plain.Replace(name))
	return ok && err == nil
}

// auxiliaryModel is a model that answers a request in words. Nothing of it is recorded.
type auxiliaryModel struct {
	*session
	asker       trinity.Asker
	name        string // that the request asks for
	request     identity
	temperature *float32 // nil is the model's own
}

// newAsked refuses what a model cannot do that is asked in words.
func newAsked(s *session, asker trinity.Asker, name string, request identity, body []byte) (*auxiliaryModel, error) {
	a := &auxiliaryModel{session: s, asker: asker, name: name, request: request}
	var given map[string]any
	_ = json.Unmarshal(body, &given) // the dialect has read the name from it, so it is JSON
	for _, field := range []string{"logprobs", "return_token_ids", "stop_token_ids", "ignore_eos", "min_tokens"} {
		if v := given[field]; v != nil && v != false {
			return nil, a.cannot(field, "has no tokens")
		}
	}
	if s.options.Sampling != trinity.SamplingOfRequest {
		return a, nil
	}
	if v, ok := given["temperature"].(float64); ok {
		a.temperature = new(float32(v))
	}
	for _, field := range []string{
		"top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "seed",
	} {
		if given[field] != nil {
			return nil, a.cannot(field, "takes a temperature alone")
		}
	}
	return a, nil
}

func (a *auxiliaryModel) cannot(field, why string) error {
	return openai.Bad(field, "the model %q is not the policy (models in workflow_args): it is asked in words and %s", a.name, why)
}

// Defaults implements [openai.Model].
func (a *auxiliaryModel) Defaults() openai.Defaults { return openai.Defaults{Demand: a.demand()} }

// Text implements [openai.Model].
func (a *auxiliaryModel) Text([]int32) (*openai.Call, error) {
	return nil, a.cannot("prompt", "answers chats: send messages")
}

// Chat implements [openai.Model].
func (a *auxiliaryModel) Chat(messages []trinity.Message, tools json.RawMessage, begun bool) (*openai.Call, error) {
	if begun {
		return nil, a.cannot("messages", "answers with a message of its own: end with another's")
	}
	if len(tools) > 0 {
		return nil, a.cannot("tools", "calls no tools")
	}
	if slices.ContainsFunc(messages, func(m trinity.Message) bool { return m.Parts != nil }) {
		return nil, a.cannot("messages", "reads no images")
	}
	sample := func(ctx context.Context, p trinity.SamplingParams) ([]openai.Reply, error) {
		if _, err := a.reserve(p.N); err != nil {
			return nil, err
		}
		ctx, enough := a.within(ctx)
		defer enough()
		replies := make([]openai.Reply, p.N)
		eg, ctx := errgroup.WithContext(ctx)
		for i := range replies {
			eg.Go(func() error {
				answer, err := a.asker.Ask(ctx, messages, trinity.AskOptions{Temperature: a.temperature, MaxTokens: p.MaxTokens})
				replies[i] = openai.Reply{Message: answer.Message, Sent: func(trinity.Message) {}, Lost: func() {}}
				replies[i].FinishReason = "stop"
				return err
			})
		}
		err := eg.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.stopIfBroken(err)
		return replies, problemOf(err)
	}
	return &openai.Call{Reads: a.model.Renderer, Sample: func(ctx context.Context, p trinity.SamplingParams) ([]openai.Reply, error) {
		return a.once(ctx, a.request, func(ctx context.Context) ([]openai.Reply, error) { return sample(ctx, p) })
	}}, nil
}

// problemOf tells a program why it gets no answer. An attempt that may succeed later has a status that
// clients repeat.
func problemOf(err error) error {
	var failed *trinity.AskError
	if !errors.As(err, &failed) {
		return err
	}
	status := map[trinity.AskReason]int{
		trinity.AskRefused: http.StatusBadRequest, trinity.AskTimedOut: http.StatusGatewayTimeout,
	}[failed.Reason]
	return &openai.Problem{Status: cmp.Or(status, http.StatusBadGateway), Code: "model_gave_no_answer", Message: failed.Error()}
}
