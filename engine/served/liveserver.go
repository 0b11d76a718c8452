package served

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/trinity-go/trinity/internal/wire/openai"
)

// liveServer is what endpoints share whose servers take weights and adapters while they run.
type liveServer struct {
	client        *openai.Client
	info          about
	model         string   // name of the model in requests; "" if they need none
	lora          bool     // the policy is an adapter
	nameEndpoints []string // endpoints that tell the name of the weights; the first one that the server has answers
	pause         string   // endpoint that pauses the server
	resume        string   // endpoint that lets it go on
	fixed         string   // why it takes no new weights if it has no endpoint that pauses it
	adapters      adapters
}

// about implements endpoint.
func (s *liveServer) about() about { return s.info }

// held implements holder.
func (s *liveServer) held() *adapters { return &s.adapters }

// release implements endpoint.
func (s *liveServer) release(ctx context.Context) { s.adapters.release(ctx) }

// tokenize implements endpoint.
func (s *liveServer) tokenize(ctx context.Context, text string) ([]int32, error) {
	q := struct {
		Model   string `json:"model,omitzero"`
		Prompt  string `json:"prompt"`
		Special bool   `json:"add_special_tokens"`
	}{s.model, text, false}
	var reply struct{ Tokens []int32 }
	err := s.client.Call(ctx, "/tokenize", &q, &reply)
	return reply.Tokens, err
}

// has implements endpoint.
func (s *liveServer) has(ctx context.Context, name string) (bool, error) {
	if s.lora {
		all, err := listed(ctx, s.client)
		return slices.Contains(all, name), err
	}
	var held struct {
		WeightVersion string `json:"weight_version"`
	}
	err := s.ask(ctx, &held, s.nameEndpoints...)
	return held.WeightVersion == name, err
}

// ask asks the first endpoint that the server has: older versions have others.
func (s *liveServer) ask(ctx context.Context, reply any, endpoints ...string) (err error) {
	for _, endpoint := range endpoints {
		if err = s.client.Call(ctx, endpoint, nil, reply); statusOf(err) != http.StatusNotFound {
			break
		}
	}
	return err
}

// whilePaused replaces the weights while the server is paused.
func (s *liveServer) whilePaused(ctx context.Context, how any, replace func() error) (err error) {
	err = s.client.Call(ctx, s.pause, how, nil)
	if statusOf(err) == http.StatusNotFound && s.fixed != "" {
		return errors.New(s.fixed)
	}
	defer func() { // it may be paused although no reply has come
		if failed := s.resumeServer(ctx); err == nil {
			err = failed
		}
	}()
	if err != nil {
		return err
	}
	return replace()
}

// resumeServer lets a paused server go on, also if ctx has ended.
func (s *liveServer) resumeServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return s.client.Call(ctx, s.resume, struct{}{}, nil)
}

// listed returns the names of the models and adapters that a server lists.
func listed(ctx context.Context, client *openai.Client) (names []string, err error) {
	var list openai.Models
	err = client.Call(ctx, "/v1/models", nil, &list)
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names, err
}
