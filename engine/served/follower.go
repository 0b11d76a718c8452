package served

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/trinity-go/trinity/internal/wire/openai"
)

// follower is what endpoints share whose servers take weights and adapters while they run.
type follower struct {
	client *openai.Client
	told   about
	model  string   // name of the model in requests; "" if they need none
	lora   bool     // the policy is an adapter
	holds  []string // endpoints that tell the name of the weights; the first one that the server has answers
	pause  string   // endpoint that pauses the server
	resume string   // endpoint that lets it go on
	fixed  string   // why it takes no new weights if it has no endpoint that pauses it
	adapters
}

// about implements endpoint.
func (f *follower) about() about { return f.told }

// tokenize implements endpoint.
func (f *follower) tokenize(ctx context.Context, text string) ([]int32, error) {
	q := struct {
		Model   string `json:"model,omitzero"`
		Prompt  string `json:"prompt"`
		Special bool   `json:"add_special_tokens"`
	}{f.model, text, false}
	var reply struct{ Tokens []int32 }
	err := f.client.Call(ctx, "/tokenize", &q, &reply)
	return reply.Tokens, err
}

// has implements endpoint.
func (f *follower) has(ctx context.Context, name string) (bool, error) {
	if f.lora {
		all, err := listed(ctx, f.client)
		return slices.Contains(all, name), err
	}
	var held struct {
		WeightVersion string `json:"weight_version"`
	}
	err := f.ask(ctx, &held, f.holds...)
	return held.WeightVersion == name, err
}

// ask asks the first endpoint that the server has: older versions have others.
func (f *follower) ask(ctx context.Context, reply any, endpoints ...string) (err error) {
	for _, endpoint := range endpoints {
		if err = f.client.Call(ctx, endpoint, nil, reply); statusOf(err) != http.StatusNotFound {
			break
		}
	}
	return err
}

// paused replaces the weights while the server is paused.
func (f *follower) paused(ctx context.Context, how any, replace func() error) (err error) {
	err = f.client.Call(ctx, f.pause, how, nil)
	if statusOf(err) == http.StatusNotFound && f.fixed != "" {
		return errors.New(f.fixed)
	}
	defer func() { // it may be paused although no reply has come
		if failed := f.goesOn(ctx); err == nil {
			err = failed
		}
	}()
	if err != nil {
		return err
	}
	return replace()
}

// goesOn lets a paused server go on, also if ctx has ended.
func (f *follower) goesOn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return f.client.Call(ctx, f.resume, struct{}{}, nil)
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
