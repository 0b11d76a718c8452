package torch

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/vision"
	"github.com/trinity-go/trinity/trinitytest"
)

// tinyVLM saves a tiny random model that reads images.
const tinyVLM = `
import json, sys
import PIL, torch, transformers
from transformers import AutoModelForImageTextToText as Auto
torch.manual_seed(0)
text = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            max_position_embeddings=256, initializer_range=0.2, pad_token_id=None, bos_token_id=None, eos_token_id=1)
if sys.argv[1] == "smolvlm":
    tower = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=4)
    config = transformers.SmolVLMConfig(text_config=text | dict(model_type="llama"), vision_config=tower, image_token_id=90,
                                        scale_factor=2, tie_word_embeddings=False)
    processor = dict(image_processor_type="SmolVLMImageProcessor", do_image_splitting=False, size=dict(longest_edge=32),
                     max_image_size=dict(longest_edge=32))
else:
    tower = dict(depth=3, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=32, patch_size=4)
    if "2_5" in sys.argv[1]:
        tower |= dict(window_size=16, fullatt_block_indexes=[1])
    else:
        tower |= dict(deepstack_visual_indexes=[0, 1], num_position_embeddings=64)
    rope = dict(rope_type="default", rope_theta=1e4, mrope_section=[2, 3, 3])
    if "2_5" not in sys.argv[1]:
        text["head_dim"] = 16
    kind = transformers.Qwen2_5_VLConfig if "2_5" in sys.argv[1] else transformers.Qwen3VLConfig
    config = kind(text_config=text | dict(rope_parameters=rope), vision_config=tower, image_token_id=90, video_token_id=91,
                  vision_start_token_id=92, vision_end_token_id=93, tie_word_embeddings=True)
    processor = dict(image_processor_type="Qwen2VLImageProcessor", patch_size=4, merge_size=2, temporal_patch_size=2,
                     size=dict(shortest_edge=64, longest_edge=6400))
Auto.from_config(config).save_pretrained(sys.argv[2])
json.dump(processor, open(sys.argv[2] + "/preprocessor_config.json", "w"))
`

// saveVLM returns the directory of a tiny model, or skips the test if the worker's Python reads no images.
func saveVLM(t *testing.T, family string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), family)
	out, err := exec.CommandContext(t.Context(), trinitytest.TorchPython(t), "-c", tinyVLM, family, dir).CombinedOutput()
	if strings.Contains(string(out), "No module named 'PIL'") {
		t.Skip("the Python of TRINITY_TORCH_PYTHON has no Pillow")
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", family, err, out)
	}
	return dir
}

// album is the images of a run.
type album map[string][]byte

func (a album) file(digest string) ([]byte, error) { return a[digest], nil }

// add makes the canonical image of one colour.
func (a album) add(t *testing.T, model string, c color.Color) *vision.Image {
	t.Helper()
	p, err := vision.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	photo := image.NewRGBA(image.Rect(0, 0, 45, 30))
	for i := range 45 * 30 {
		photo.Set(i%45, i/45, c)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, photo); err != nil {
		t.Fatal(err)
	}
	canonical, err := p.Canonical(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	a[canonical.Digest] = canonical.PNG
	return canonical
}

// group is four replies to a prompt with an image. Replies that begin with the good token have the advantage 1, others −1.
func group(img *vision.Image, task string, good int32) (xs []*trinity.Experience) {
	prompt := []int32{3, 92}
	prompt = append(append(prompt, slices.Repeat([]int32{90}, img.Tokens)...), 93)
	for t := range 14 {
		prompt = append(prompt, int32(20+t))
	}
	for run := range 4 {
		x := &trinity.Experience{ID: trinity.ExperienceID{Task: task, Run: run}, PromptLen: len(prompt), Temperature: 1,
			Tokens: append(slices.Clone(prompt), good+int32(run%2), 50, int32(60+run), 1),
			Images: []trinity.Image{{Digest: img.Digest, At: 2, Len: img.Tokens, Grid: img.Grid}}}
		x.Mask, x.Advantages = make([]bool, len(x.Tokens)), make([]float32, len(x.Tokens))
		for at := len(prompt); at < len(x.Tokens); at++ {
			x.Mask[at] = true
		}
		x.Advantages[len(prompt)] = float32(1 - 2*(run%2))
		x.Returns = make([]float32, len(x.Tokens))
		xs = append(xs, x)
	}
	return xs
}

// colours are groups about a red and a blue image, whose good replies differ.
func colours(t *testing.T, a album, dir string) *trinity.Batch {
	red, blue := a.add(t, dir, color.RGBA{255, 0, 0, 255}), a.add(t, dir, color.RGBA{0, 0, 255, 255})
	b := &trinity.Batch{Step: 1, Experiences: append(group(red, "red", 40), group(blue, "blue", 41)...)}
	b.Whole = b.Experiences
	return b
}

// ascent is the loss of a policy gradient: −Σ a·logprob.
type ascent struct{}

func (ascent) Streams() trinity.Streams { return trinity.Streams{} }

func (ascent) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	grads := make([]trinity.TokenGrads, len(now))
	for i, x := range b.Experiences {
		grads[i].Logprob = make([]float32, len(x.Tokens))
		for t, a := range x.Advantages {
			grads[i].Logprob[t] = -a
		}
	}
	return grads, nil, nil
}

// climb takes three steps and returns how much better the better replies are, before and after each, and the last streams.
func climb(t *testing.T, e engine.Trainer, b *trinity.Batch) (margins []float64, stats []trinity.TokenStats) {
	t.Helper()
	for step := range 4 {
		var err error
		if stats, err = e.Forward(t.Context(), b, trinity.Streams{}); err != nil {
			t.Fatal(err)
		}
		margin := 0.0
		for i, x := range b.Experiences {
			margin += float64(x.Advantages[x.PromptLen] * stats[i].Logprob[x.PromptLen])
		}
		if margins = append(margins, margin); step == 3 {
			return margins, stats
		}
		for _, piece := range e.(*workerModel).Cut(b.Experiences, 1) {
			if _, err := e.ForwardBackward(t.Context(), &trinity.Batch{Step: 1, Experiences: piece, Whole: b.Whole}, ascent{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.OptimStep(t.Context(), trinity.OptimParams{LR: 3e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-6}); err != nil {
			t.Fatal(err)
		}
	}
	return nil, nil
}

// Three steps on groups of a good and a bad reply raise the margin between them. Two ranks, of which one may have no image,
// compute what one computes.
func TestStepsWithImages(t *testing.T) {
	for _, family := range []string{"smolvlm", "qwen2_5_vl", "qwen3_vl"} {
		dir, a := saveVLM(t, family), album{}
		b := colours(t, a, dir)
		var first []trinity.TokenStats
		for _, ranks := range []int{1, 2} {
			spec := engine.TrainerSpec{ModelPath: dir, MicroTokens: 128, MaxModelLen: 64, Train: true, Reference: true,
				Images: a.file}
			p := onRanks(t, ranks)
			p.args.Vision = trainedVision
			t.Cleanup(func() { p.args.Vision = frozenVision })
			e := opened(t, p, spec)
			margins, stats := climb(t, e, b)
			if margins[3] <= margins[0] {
				t.Errorf("%s, %d ranks: the margins are %v", family, ranks, margins)
			}
			if first == nil {
				first = stats
			} else if d := apart(first, stats); d > 1e-4 {
				t.Errorf("%s: two ranks are %v from one", family, d)
			}
			if reference, err := e.Reference(t.Context(), b); err != nil || apart(reference, stats) == 0 {
				t.Errorf("%s: the reference is what was trained: %v", family, err)
			}
		}
	}
}

// What is trained, saved and adapted without the tower.
func TestFrozenTower(t *testing.T) {
	dir, a := saveVLM(t, "qwen2_5_vl"), album{}
	b, p := colours(t, a, dir), onRanks(t, 1)
	for _, lora := range []*engine.LoRASpec{nil, {LoraRank: 4, LoraAlpha: 8}} {
		spec := engine.TrainerSpec{ModelPath: dir, MicroTokens: 128, MaxModelLen: 64, Train: true, LoRA: lora,
			Images: a.file}
		parts, err := p.PlanMemory(spec)
		if err != nil || !slices.ContainsFunc(parts, func(m engine.MemoryPart) bool { return m.Kind == "images" }) {
			t.Errorf("the plan is %v, %v", parts, err)
		}
		e := opened(t, p, spec)
		if margins, _ := climb(t, e, b); lora == nil && margins[3] <= margins[0] {
			t.Errorf("the margins are %v", margins)
		}
		saved := filepath.Join(t.TempDir(), "saved")
		if err := e.SaveModel(t.Context(), saved); err != nil {
			t.Fatal(err)
		}
		base, err := model.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		if lora != nil {
			file, err := model.OpenAdapter(saved, base.Config)
			if err != nil {
				t.Fatal(err)
			}
			if tensors, err := file.Tensors(base.Config); err != nil || len(tensors) != 2*2*7 {
				t.Errorf("the adapter has %d tensors, %v", len(tensors), err)
			}
			file.Close()
			continue
		}
		m, err := model.Open(saved)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		changed := 0
		for _, name := range base.Names() {
			if same(t, base, m, name) {
				continue
			}
			if changed++; strings.Contains(name, "visual.") {
				t.Errorf("%s has changed", name)
			}
		}
		if changed == 0 {
			t.Error("nothing has changed")
		}
	}
}

// same reports whether two models have the same numbers in a tensor.
func same(t *testing.T, a, b *model.Model, name string) bool {
	t.Helper()
	var values [2][]float32
	for i, m := range []*model.Model{a, b} {
		tensor, err := m.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		values[i] = make([]float32, tensor.Len())
		if err := tensor.Float32(values[i]); err != nil {
			t.Fatal(err)
		}
	}
	return slices.Equal(values[0], values[1])
}

// The errors name the experience, the model and what is wrong.
func TestImagesThatCannotBeComputed(t *testing.T) {
	dir, a := saveVLM(t, "smolvlm"), album{}
	b, p := colours(t, a, dir), onRanks(t, 1)
	spec := engine.TrainerSpec{ModelPath: dir, MicroTokens: 128, MaxModelLen: 64, Images: a.file}
	e := opened(t, p, spec)
	ofText := opened(t, p, tiny("qwen2"))
	spec.Images = nil
	withoutFiles := opened(t, p, spec)
	one := func(change func(x *trinity.Experience)) *trinity.Batch {
		x := *b.Experiences[0]
		x.Tokens, x.Images = slices.Clone(x.Tokens), slices.Clone(x.Images)
		change(&x)
		return &trinity.Batch{Experiences: []*trinity.Experience{&x}}
	}
	other := blobs.Digest([]byte("other"))
	a[other] = []byte("others")
	for want, of := range map[string]struct {
		e engine.Trainer
		b *trinity.Batch
	}{
		"reads no images: experience 0/red/0/0 has 1":      {ofText, one(func(*trinity.Experience) {})},
		"images[0]: this run keeps no images":              {withoutFiles, one(func(*trinity.Experience) {})},
		"somebody has changed it":                          {e, one(func(x *trinity.Experience) { x.Images[0].Digest = other })},
		"token 3 is 4, and images[0] has the token 90":     {e, one(func(x *trinity.Experience) { x.Tokens[3] = 4 })},
		"token 2 stands for an image (90), and no image":   {e, one(func(x *trinity.Experience) { x.Images = nil })},
		"when it was sampled: is preprocessor_config.json": {e, one(func(x *trinity.Experience) { x.Images[0].Grid[1] = 4 })},
	} {
		if _, err := of.e.Forward(t.Context(), of.b, trinity.Streams{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for want, change := range map[string]func(*engine.TrainerSpec, *args){
		"reads images, whose tokens may lie":  func(s *engine.TrainerSpec, _ *args) { s.Sequence = 2; s.Place.Ranks = 2 },
		"ranks divide no tower":               func(s *engine.TrainerSpec, _ *args) { s.Tensor = 2; s.Place.Ranks = 2 },
		"no critic or reward model here does": func(s *engine.TrainerSpec, _ *args) { s.Head = engine.ValueHead },
		"trains the text part alone": func(s *engine.TrainerSpec, a *args) {
			a.Vision, s.LoRA = trainedVision, &engine.LoRASpec{LoraRank: 2}
		},
		"reads no images, so it has no tower": func(s *engine.TrainerSpec, a *args) {
			a.Vision, s.ModelPath = trainedVision, tiny("qwen2").ModelPath
		},
	} {
		spec, own := spec, plugin{args: p.args}
		spec.Train = true
		change(&spec, &own.args)
		if _, err := own.PlanMemory(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Sequences share a stem up to an image that is another one.
func TestStemsEndBeforeAnotherImage(t *testing.T) {
	img := &vision.Image{Digest: blobs.Digest(nil), Tokens: 4, Grid: [3]int{1, 4, 4}}
	other := &vision.Image{Digest: blobs.Digest([]byte{1}), Tokens: 4, Grid: [3]int{1, 4, 4}}
	p := newPiece(1, 100, &model.Config{NumHeads: 1})
	xs := append(group(img, "a", 40)[:2], group(other, "b", 40)[0])
	for _, x := range xs {
		p.add(keys(x, length(x)))
	}
	if n, want := p.forests[0].rows, 2*len(xs[0].Tokens)+4; n != want {
		t.Errorf("the row has %d tokens, want %d", n, want)
	}
}
