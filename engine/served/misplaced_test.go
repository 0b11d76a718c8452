package served

import (
	"context"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wire/openai"
	fakes "github.com/trinity-go/trinity/trinitytest/server"
)

// silent is a sampler that nobody asks.
type silent struct{}

func (silent) Sample(context.Context, trinity.Prompt, trinity.SamplingParams) ([]trinity.Completion, error) {
	panic("asked")
}

// vLLM answers 500 if there are more images than places for them. That is the request's fault: the server is not left out for it.
func TestImagesWithoutPlacesAreNoBrokenServer(t *testing.T) {
	one := fakes.Images{Token: 60, Tokens: func([]byte) (int, error) { return 1, nil }}
	fake := fakes.VLLM(t, silent{}, fakes.Options{Vocab: 64, MaxLen: 32, Tokens: true, Images: one})
	s := &vllmServer{liveServer: liveServer{client: &openai.Client{BaseURL: fake.URL}, model: "tiny"}, isVLLM: true, byTokens: true}
	image := trinity.PromptImage{Image: trinity.Image{Digest: "d", At: 1, Len: 1}}
	q := &query{prompt: []int32{1, 60}, collapsed: []int32{1, 60}, images: []trinity.PromptImage{image, image}}
	q.MaxTokens = 1
	_, err := s.sample(t.Context(), q)
	if err == nil || retry.IsTemporary(err) || statusOf(err) != 0 ||
		!strings.Contains(err.Error(), "it cannot place the 2 images in the prompt's tokens") {
		t.Errorf("%v, temporary %v", err, retry.IsTemporary(err))
	}
	q.images = nil // the error of any other request stays
	if err := misplaced(q, &retry.StatusError{Code: 500, Message: "prompt replacement"}); statusOf(err) != 500 {
		t.Errorf("%v", err)
	}
}
