package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/cluster"
	"github.com/trinity-go/trinity/launcher"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/model/vision"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// vlm runs testdata/vlm.py.
func vlm(t *testing.T, python string, in any, out any, args ...string) {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"testdata/vlm.py"}, args...)...)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &bytes.Buffer{}
	said, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, cmd.Stderr)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(said, out); err != nil {
		t.Fatalf("%v: %v: %s", args, err, said)
	}
}

// photo is a picture of many colours.
func photo(t *testing.T, width, height int) []byte {
	t.Helper()
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			picture.Set(x, y, color.RGBA{uint8(x * 7), uint8(y * 5), uint8(x * y), 255})
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// startVLLM starts a server of vLLM for a sampler of spec.
func startVLLM(t *testing.T, python string, spec engine.SamplerSpec) trinity.Sampler {
	t.Helper()
	vllm, err := registry.Samplers.Build("vllm", map[string]any{"python": python})
	if err != nil {
		t.Fatal(err)
	}
	local, err := launcher.Launchers.Build("local")
	if err != nil {
		t.Fatal(err)
	}
	here := &cluster.Cluster{Launcher: local, Patience: 20 * time.Minute}
	spec.MaxSequences, spec.Record, spec.Patience = 8, engine.RecordSpec{Tokens: true}, time.Minute
	spec.Start = engine.ServerSpec{Engines: 1, DType: "float32", Place: engine.Place{Programs: here, Nodes: 1}}
	sampler, err := vllm.OpenSampler(t.Context(), spec)
	if err != nil {
		t.Fatal(errors.Join(err, here.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(sampler.(io.Closer).Close(), here.Close()); err != nil {
			t.Error(err)
		}
	})
	return sampler
}

// What vLLM samples beside images has the log-probabilities that transformers computes of the same files.
func TestVLLMReadsImages(t *testing.T) {
	python := trinitytest.Python(t, "TRINITY_VLLM_PYTHON", "vllm", "transformers", "PIL")
	trinitytest.Long(t, "starts vLLM twice", "engine/served", "model/renderer", "model/vision", "examples")
	for _, family := range []string{"qwen2_5_vl", "idefics3"} {
		t.Run(family, func(t *testing.T) {
			dir := t.TempDir()
			vlm(t, python, nil, nil, "make", family, dir)
			p, err := vision.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			store := blobs.In(t.TempDir())
			text, err := renderer.Open(dir, renderer.Options{Images: renderer.ImagesOf(p, store)})
			if err != nil {
				t.Fatal(err)
			}
			sampler := startVLLM(t, python, engine.SamplerSpec{
				ModelPath: dir, MaxModelLen: 256, Tokens: func(s string) []int32 { return text.Tokenizer().Encode(s, false) },
			})
			m := &trinity.Model{
				Sampler: sampler, Renderer: text, MaxModelLen: 256,
				Params: trinity.SamplingParams{Temperature: 1, MaxTokens: 12, Seed: 3, IgnoreEOS: true},
			}
			show := func(width, height int, says string) trinity.Message {
				digest, err := text.TakeImage(photo(t, width, height))
				if err != nil {
					t.Fatal(err)
				}
				return trinity.Message{Role: "user", Content: says, Parts: []trinity.Part{{Image: digest}, {Text: says}}}
			}
			d := m.Dialogue(nil)
			for _, turn := range []trinity.Message{show(90, 60, "what colour is <|image_pad|><image>?"), show(50, 120, "and this?")} {
				d.Add(turn)
				if _, err := d.Reply(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			e := d.Whole()[0]
			if err := e.Check(); err != nil || len(e.Images) != 2 || len(d.Whole()) != 1 {
				t.Fatalf("%v, images %+v", err, e.Images)
			}
			sequence := map[string]any{"tokens": e.Tokens, "images": imageFiles(t, store, e)}
			var want [][]float64
			vlm(t, python, []any{sequence}, &want, "score", dir)
			worst, learnt := 0.0, 0
			for i, own := range e.Mask {
				if own {
					worst, learnt = max(worst, math.Abs(float64(e.Logprobs[i])-want[0][i-1])), learnt+1
				}
			}
			t.Logf("%d sampled tokens beside %d images: at most %.2g nats apart", learnt, len(e.Images), worst)
			if worst > 1e-4 || learnt != 24 {
				t.Errorf("%d sampled tokens, at most %.2g nats from transformers', want 24 and 1e-4", learnt, worst)
			}
			scored(t, m, text, e, want[0])
		})
	}
}

// scored checks how the server scores the tokens of an experience with images.
func scored(t *testing.T, m *trinity.Model, text *renderer.Renderer, e *trinity.Experience, want []float64) {
	t.Helper()
	prompt := trinity.Prompt{Tokens: e.Tokens}
	for _, x := range e.Images {
		file, err := text.ImageFile(x.Digest)
		if err != nil {
			t.Fatal(err)
		}
		prompt.Images = append(prompt.Images, trinity.PromptImage{Image: x, PNG: file})
	}
	out, err := m.Sampler.Sample(t.Context(), prompt, trinity.SamplingParams{MaxTokens: 1, ScorePrompt: true})
	if err != nil || len(out[0].Prompt.Logprobs) != len(want) {
		t.Fatalf("%d scores, %v, want %d", len(out[0].Prompt.Logprobs), err, len(want))
	}
	worst := 0.0
	for i, l := range out[0].Prompt.Logprobs {
		worst = max(worst, math.Abs(float64(l)-want[i]))
	}
	if t.Logf("scores of %d tokens: at most %.2g nats apart", len(want), worst); worst > 1e-4 {
		t.Errorf("scores are %.2g nats from transformers', want 1e-4", worst)
	}
	prompt.Images[0].Len--
	_, err = m.Sampler.Sample(t.Context(), prompt, trinity.SamplingParams{MaxTokens: 1})
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("an image of a token less: %v, want one line", err)
	}
}

// imageFiles writes the images of an experience, and returns the paths.
func imageFiles(t *testing.T, store blobs.Store, e *trinity.Experience) (paths []string) {
	t.Helper()
	files, err := store.Images(e)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i, file := range files {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.png", i)))
		if err := os.WriteFile(paths[i], file, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}
