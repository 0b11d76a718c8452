package served

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// scaleOut starts a server that reads images beside tokens.
const scaleOut = "--enable-scale-out"

// vllmTokens is the endpoint of a server for tokens, with images beside them.
type vllmTokens struct{ server *vllmServer }

// sight implements sighted.
func (s *vllmServer) sight() seer { return vllmTokens{s} }

// blind implements seer.
func (v vllmTokens) blind() error {
	switch {
	case !v.server.isVLLM:
		return errors.New("it is no vLLM server, and reads text alone: leave the images out")
	case !v.server.byTokens:
		return errors.New("it reads images beside tokens only if it is started with " + scaleOut)
	}
	return nil
}

// directory implements seer.
func (v vllmTokens) directory(ctx context.Context) string {
	config, _ := v.server.config(ctx) // only a server in development mode tells
	return config.Model.Model
}

// vllmPart is a part of a prompt that is no token.
type vllmPart struct {
	Type string `json:"type"`
	URL  string `json:"url"`
	UUID string `json:"uuid"` // by which the server remembers what it has computed of the part
}

// parts returns the images of a query.
func (q *query) parts() (all []vllmPart) {
	for _, x := range q.images {
		url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(x.PNG)
		all = append(all, vllmPart{"image_url", url, x.Digest})
	}
	return all
}

// misplaced returns the error of a request whose images and tokens do not fit. vLLM 0.32 answers it as if it were broken
// itself.
func misplaced(q *query, err error) error {
	if len(q.images) > 0 && statusOf(err) == http.StatusInternalServerError && strings.Contains(err.Error(), "prompt replacement") {
		return wrongf("it cannot place the %d images in the prompt's tokens: %v", len(q.images), err)
	}
	return err
}

// scoreShown implements seer.
func (v vllmTokens) scoreShown(ctx context.Context, q *query) ([]float32, error) {
	reply, err := v.generated(ctx, q, new(0))
	if err != nil {
		return nil, err
	}
	if err := q.checkPlaces(reply.PromptTokenIDs, reply.Placeholders["image"]); err != nil {
		return nil, err
	}
	if len(reply.PromptLogprobs) != len(q.prompt) {
		return nil, errors.New("it returns no log-probabilities of the prompt's tokens (prompt_logprobs)")
	}
	logprobs := make([]float32, 0, len(q.prompt)-1)
	for i, at := range reply.PromptLogprobs[1:] {
		l := at[strconv.Itoa(int(q.prompt[i+1]))]
		if l.Logprob == nil {
			return nil, fmt.Errorf("it returns no log-probability of token %d of the prompt", i+1)
		}
		logprobs = append(logprobs, *l.Logprob)
	}
	return logprobs, nil
}
