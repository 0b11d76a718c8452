package served

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/model"
)

// An image is a file beside the tokens of a prompt. A server puts its tokens in place of one token, also if the prompt
// has all of them already. So prompts are sent with one token for each image, and what a server makes of that must be the
// prompt.

// sighted is an endpoint whose server may read images.
type sighted interface{ sight() seer }

// seer speaks to a server of images.
type seer interface {
	// blind says why the server reads no images; nil if it reads them.
	blind() error
	// scoreShown is scorer.score of a prompt with images.
	scoreShown(ctx context.Context, q *query) ([]float32, error)
	// directory returns where the server has its model, "" if it does not tell.
	directory(ctx context.Context) string
}

// collapse returns what the servers get of a prompt: its tokens, with one in place of each image. It refuses images that
// a server does not read.
func (s *sampler) collapse(prompt *trinity.Prompt) ([]int32, error) {
	if len(prompt.Images) == 0 {
		return prompt.Tokens, nil
	}
	for _, target := range s.pool.servers.all {
		sees, ok := target.endpoint.(sighted)
		if !ok {
			return nil, engine.CheckPrompt(prompt, target.name())
		}
		if err := sees.sight().blind(); err != nil {
			return nil, fmt.Errorf("%s: %w", target.name(), err)
		}
	}
	return collapse(prompt.Tokens, prompt.Images, s.checker.image)
}

// collapse returns tokens with one in place of each image.
func collapse(tokens []int32, images []trinity.PromptImage, one int32) (short []int32, err error) {
	if one < 0 {
		return nil, errors.New("model.model_path has no token that a server replaces by an image: " +
			"use a model such as Qwen2.5-VL, Qwen3-VL or SmolVLM")
	}
	at := 0
	for i, x := range images {
		switch {
		case x.At < at || x.Len < 1 || x.Len > len(tokens)-x.At:
			return nil, fmt.Errorf("image %d of the prompt is %d tokens at %d, want a place in %d to %d", i, x.Len, x.At, at, len(tokens))
		case !slices.Contains(tokens[x.At:x.At+x.Len], one):
			return nil, fmt.Errorf("image %d of the prompt, at token %d, lacks the token %d (image_token_id of config.json)", i, x.At, one)
		}
		short = append(append(short, tokens[at:x.At]...), one)
		at = x.At + x.Len
	}
	short = append(short, tokens[at:]...)
	n := 0
	for _, t := range short {
		if t == one {
			n++
		}
	}
	if n != len(images) {
		return nil, fmt.Errorf("the prompt has %d images, and the token %d of an image (image_token_id of config.json) %d times",
			len(images), one, n)
	}
	return short, nil
}

// imageToken returns the token that a server replaces by an image; -1 if the model has none.
func imageToken(cfg *model.Config) int32 {
	if v := cfg.Vision(); v != nil && int(v.Placeholder) < cfg.VocabSize {
		return v.Placeholder
	}
	return -1
}

// placeholder is where a server has put the tokens of an image.
type placeholder struct{ Offset, Length int }

// checkPlaces returns an error unless a server has made the query's prompt of what it got.
func (q *query) checkPlaces(prompt []int32, images []placeholder) error {
	if len(images) != len(q.images) {
		return differs("the server found %d images in a prompt with %d", len(images), len(q.images))
	}
	for i, x := range q.images {
		switch placed := images[i]; {
		case placed.Length != x.Len:
			return differs("the server makes %d tokens of an image, this program %d", placed.Length, x.Len)
		case placed.Offset != x.At:
			return differs("the server has image %d at token %d, this program at %d", i, placed.Offset, x.At)
		}
	}
	if !slices.Equal(prompt, q.prompt) {
		at := 0
		for at < min(len(prompt), len(q.prompt)) && prompt[at] == q.prompt[at] {
			at++
		}
		return differs("the server reads another prompt than this program from token %d on: %d tokens for %d", at, len(prompt),
			len(q.prompt))
	}
	return nil
}

func differs(format string, args ...any) error {
	return &trinity.EngineError{Err: fmt.Errorf(format+": "+processorFile+" differs?", args...)}
}

// The files that say how a model's images are prepared.
const (
	processorFile      = "preprocessor_config.json"
	processorFileNewer = "processor_config.json"
)

// checkProcessor refuses a server whose model prepares images otherwise, if the files of its model are here.
func (c *checker) checkProcessor(ctx context.Context, s *server, dir string, isHere bool, say func(string)) error {
	sees, ok := s.endpoint.(sighted)
	if !ok || c.image < 0 {
		return nil
	}
	theirs := sees.sight().directory(ctx)
	if info, err := os.Stat(theirs); !isHere || err != nil || !info.IsDir() {
		say(s.name() + " has its model elsewhere, so its " + processorFile + " is not compared with that of model.model_path")
		return nil
	}
	for _, name := range []string{processorFile, processorFileNewer} {
		own, err := readIfThere(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		other, err := readIfThere(filepath.Join(theirs, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(own, other) {
			return fmt.Errorf("%s prepares images otherwise than model.model_path: %s and %s differ",
				s.name(), filepath.Join(theirs, name), filepath.Join(dir, name))
		}
	}
	return nil
}

// readIfThere returns the text of a file; nil if it is missing.
func readIfThere(path string) ([]byte, error) {
	text, err := durable.ReadRegular(path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}
