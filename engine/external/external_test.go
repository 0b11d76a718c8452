package external

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// An API of text would take the digest of an image for words.
func TestImagesAreRefused(t *testing.T) {
	prompt := trinity.Prompt{Tokens: []int32{1}, Messages: []trinity.Message{{Role: "user"}}, Images: []trinity.PromptImage{{}}}
	_, err := (&sampler{}).Sample(t.Context(), prompt, trinity.SamplingParams{})
	if err == nil || !strings.Contains(err.Error(), "the prompt has 1 images, and a model behind an API of text (external) reads text alone") {
		t.Errorf("got %v", err)
	}
}
