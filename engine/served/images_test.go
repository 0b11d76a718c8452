package served_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// pad is the token of an image in the tests. The fake makes as many of it as the first byte of a file says.
const pad = 60

var reading = server.Images{Token: pad, Tokens: func(file []byte) (int, error) {
	if len(file) == 0 {
		return 0, errors.New("cannot identify image file")
	}
	return int(file[0]), nil
}}

// vlm returns a copy of the tiny model with further keys in its config.
func vlm(t *testing.T, keys map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(tiny, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "config.json" {
			var config map[string]any
			if err := json.Unmarshal(data, &config); err != nil {
				t.Fatal(err)
			}
			for key, value := range keys {
				config[key] = value
			}
			if data, err = json.Marshal(config); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var seeing = map[string]any{"model_type": "qwen2_5_vl", "vision_config": map[string]any{}, "image_token_id": pad}

// shown returns an image of n tokens at a place.
func shown(at, n int) trinity.PromptImage {
	x := trinity.PromptImage{PNG: []byte{byte(n)}}
	x.Image = trinity.Image{Digest: "sha256:" + strings.Repeat("0", 64), At: at, Len: n, Grid: [3]int{1, 1, n}}
	return x
}

// pictured is a prompt with two images.
func pictured() trinity.Prompt {
	return trinity.Prompt{Tokens: []int32{3, pad, pad, pad, pad, 5, pad, pad, 7}, Images: []trinity.PromptImage{shown(1, 4), shown(6, 2)}}
}

// A server gets one token for each image, and must make the prompt of it: it would put the tokens of an image in place of
// the first one of them without a word.
func TestPromptsWithImages(t *testing.T) {
	fake := server.VLLM(t, own(t), server.Options{Vocab: vocab, MaxLen: 32, Develops: true, Tokens: true, Images: reading})
	with := spec(fake.URL)
	with.ModelPath = vlm(t, seeing)
	s := must(t, "vllm", with)
	p := trinity.SamplingParams{MaxTokens: 5, Temperature: 1, Seed: 3, ScorePrompt: true}
	got, err := s.Sample(t.Context(), pictured(), p)
	if err != nil {
		t.Fatal(err)
	}
	want, err := own(t).Sample(t.Context(), trinity.Prompt{Tokens: pictured().Tokens}, p)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got[0].Tokens, want[0].Tokens) || !reflect.DeepEqual(got[0].Prompt.Logprobs, want[0].Prompt.Logprobs) ||
		len(want[0].Prompt.Logprobs) != 8 {
		t.Errorf("sampled %v with %v, want %v with %v", got[0].Tokens, got[0].Prompt.Logprobs, want[0].Tokens, want[0].Prompt.Logprobs)
	}
	told := 0
	p.OnToken = func(int, trinity.Sampled) { told++ }
	if got, err = s.Sample(t.Context(), pictured(), p); err != nil || told != len(got[0].Tokens) {
		t.Errorf("%d of %d tokens were told, %v", told, len(got[0].Tokens), err)
	}
	long := trinity.Prompt{Tokens: []int32{3}, Images: []trinity.PromptImage{shown(1, 30)}}
	for range 30 {
		long.Tokens = append(long.Tokens, pad)
	}
	if _, err := s.Sample(t.Context(), long, trinity.SamplingParams{MaxTokens: 1}); err != nil {
		t.Errorf("a prompt of 31 tokens in 32: %v", err)
	}
	long.Tokens = append(long.Tokens, 4)
	if _, err := s.Sample(t.Context(), long, trinity.SamplingParams{}); err == nil || !strings.Contains(err.Error(), "leaves no room") {
		t.Errorf("a prompt of 32 tokens in 32: %v", err)
	}
}

// What the server makes of images, and what a prompt says of them, is compared.
func TestImagesThatDoNotFit(t *testing.T) {
	stray := pictured()
	stray.Tokens = append(stray.Tokens, pad)
	moved := pictured()
	moved.Images = []trinity.PromptImage{shown(1, 4), shown(5, 1)}
	overlapping := pictured()
	overlapping.Images = []trinity.PromptImage{shown(1, 4), shown(4, 4)}
	for _, c := range []struct {
		name   string
		lie    server.Lie
		prompt trinity.Prompt
		want   string
		fatal  bool // an error of the engine, as the sampler says
	}{
		{"another processor", server.OtherImages, pictured(),
			"the server makes 6 tokens of an image, this program 4: preprocessor_config.json differs?", true},
		{"no places", server.NoPlaces, pictured(), "the server found 0 images in a prompt with 2", true},
		{"another prompt", server.ReadsText, pictured(),
			"the server reads another prompt than this program from token 0 on: 10 tokens for 9", true},
		{"a token without an image", "", stray,
			"the prompt has 2 images, and the token 60 of an image (image_token_id of config.json) 3 times", false},
		{"an image without its token", "", moved, "image 1 of the prompt, at token 5, lacks the token 60", false},
		{"images in one place", "", overlapping, "image 1 of the prompt is 4 tokens at 4, want a place in 5 to 9", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := server.VLLM(t, own(t), server.Options{Vocab: vocab, MaxLen: 32, Develops: true, Tokens: true, Images: reading})
			with := spec(fake.URL)
			with.ModelPath = vlm(t, seeing)
			s := must(t, "vllm", with)
			fake.Tell(c.lie)
			_, err := s.Sample(t.Context(), c.prompt, trinity.SamplingParams{MaxTokens: 3})
			fatal := new(trinity.EngineError)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || errors.As(err, &fatal) != c.fatal {
				t.Errorf("got %v, want one line with %q, of the engine %v", err, c.want, c.fatal)
			}
		})
	}
}

// A server that reads no images beside tokens says what it lacks.
func TestServersWithoutImages(t *testing.T) {
	o := server.Options{Vocab: vocab, MaxLen: 32, Develops: true, Images: reading}
	all := o
	all.Tokens = true
	for _, c := range []struct {
		plugin string
		fake   *server.Fake
		keys   map[string]any
		want   string
	}{
		{"vllm", server.VLLM(t, own(t), o), seeing, "it reads images beside tokens only if it is started with --enable-scale-out"},
		{"vllm", server.VLLM(t, own(t), all), map[string]any{"vision_config": map[string]any{}}, "has no token that a server replaces"},
		{"vllm", server.VLLM(t, own(t), all), map[string]any{"model_type": "qwen2_5_vl", "vision_config": map[string]any{}},
			"has no token that a server replaces"},
		{"sglang", server.SGLang(t, own(t), o), seeing, "reads text alone: set explorer.rollout_model.engine_type to vllm"},
		{"llama_server", server.LlamaServer(t, own(t), o), seeing, "reads text alone: set explorer.rollout_model.engine_type to vllm"},
	} {
		with := spec(c.fake.URL)
		with.ModelPath = vlm(t, c.keys)
		_, err := must(t, c.plugin, with).Sample(t.Context(), pictured(), trinity.SamplingParams{MaxTokens: 3})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", c.plugin, err, c.want)
		}
	}
}

// Another mean of pixels would change log-probabilities without a word.
func TestProcessorsAreCompared(t *testing.T) {
	for _, c := range []struct{ own, other, want string }{
		{`{"image_mean": [0.5, 0.5, 0.5]}`, `{"image_mean": [0.5, 0.5, 0.5]}`, ""},
		{`{"image_mean": [0.5, 0.5, 0.5]}`, `{"image_mean": [0.4, 0.5, 0.5]}`, "prepares images otherwise than model.model_path: "},
		{`{"image_mean": [0.5, 0.5, 0.5]}`, "", "prepares images otherwise than model.model_path: "},
	} {
		here, there := vlm(t, seeing), vlm(t, seeing)
		for dir, text := range map[string]string{here: c.own, there: c.other} {
			if text != "" {
				if err := os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		with := spec(server.VLLM(t, own(t), server.Options{Vocab: vocab, MaxLen: 32, Develops: true, Tokens: true, Model: there}).URL)
		with.ModelPath = here
		_, err := open(t, "vllm", with, nil)
		if c.want == "" && err != nil ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s and %s: %v, want %q", c.own, c.other, err, c.want)
		}
	}
}

// A run starts the servers of a model that sees images so that they read images beside tokens.
func TestServersAreStartedForImages(t *testing.T) {
	for _, c := range []struct {
		keys map[string]any
		want bool
	}{{seeing, true}, {nil, false}} {
		with := spec()
		with.ModelPath = vlm(t, c.keys)
		with.Start = engine.ServerSpec{Engines: 1, DType: "float32"}
		programs := build(t, "vllm", nil).(interface {
			Programs(engine.SamplerSpec) []engine.Program
		}).Programs(with)
		words := strings.Join(programs[0].Command, " ")
		if got := strings.Contains(words, ` --enable-scale-out --limit-mm-per-prompt {"image": 16, "video": 0}`); got != c.want {
			t.Errorf("%v: %s", c.keys, words)
		}
	}
}
