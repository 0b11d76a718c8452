package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// Bandits that see images: they compute nothing of them, and return an error unless an image is where its
// tokens are, with the file of its digest.
func init() {
	registry.Trainers.Register("test_seeing", "A bandit that is shown images.", func() engine.TrainerOpener { return &seeingTrainer{} })
	registry.Samplers.Register("test_seeing_sampler", "Another one.", func() engine.SamplerOpener { return &seeingSampler{} })
}

// pad is the token of images in the model of newSeeing.
const pad = 263

type seeingTrainer struct{ banditTrainer }

func (*seeingTrainer) SeesImages() {}

func (o *seeingTrainer) OpenTrainer(_ context.Context, spec engine.TrainerSpec) (engine.Trainer, error) {
	bandit, err := newBandit(spec.ModelPath)
	return seeingEngine{bandit, spec.Images}, err
}

type seeingEngine struct {
	*trinitytest.Bandit
	file func(string) ([]byte, error)
}

func (e seeingEngine) ForwardBackward(ctx context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	text, err := e.see(b)
	if err != nil {
		return nil, err
	}
	return e.Bandit.ForwardBackward(ctx, text, loss)
}

func (e seeingEngine) Reference(ctx context.Context, b *trinity.Batch) ([]trinity.TokenStats, error) {
	text, err := e.see(b)
	if err != nil {
		return nil, err
	}
	return e.Bandit.Reference(ctx, text)
}

// see returns a batch without its images, which a bandit does not compute, unless one is not where it should be.
func (e seeingEngine) see(b *trinity.Batch) (*trinity.Batch, error) {
	text := *b
	text.Experiences = nil
	for _, x := range b.Experiences {
		if len(x.Images) == 0 {
			return nil, fmt.Errorf("experience %s has no images", x.ID)
		}
		for _, i := range x.Images {
			file, err := e.file(i.Digest)
			if err == nil {
				err = isShown(x.Tokens, i, file)
			}
			if err != nil {
				return nil, err
			}
		}
		blind := *x
		blind.Images = nil
		text.Experiences = append(text.Experiences, &blind)
	}
	return &text, nil
}

// isShown returns an error unless the tokens have an image at its place.
func isShown(tokens []int32, i trinity.Image, file []byte) error {
	if got := blobs.Digest(file); got != i.Digest {
		return fmt.Errorf("the file of %s is %s", i.Digest, got)
	}
	of := tokens[i.At : i.At+i.Len]
	if i.Len != 4 || slices.ContainsFunc(of, func(token int32) bool { return token != pad }) {
		return fmt.Errorf("an image of 56×56 pixels has the tokens %v", of)
	}
	return nil
}

type seeingSampler struct{ banditSampler }

func (*seeingSampler) SeesImages() {}

func (*seeingSampler) OpenSampler(_ context.Context, spec engine.SamplerSpec) (trinity.Sampler, error) {
	bandit, err := newBandit(spec.ModelPath)
	return seeingBandit{bandit}, err
}

type seeingBandit struct{ *trinitytest.Bandit }

func (s seeingBandit) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	if len(prompt.Images) == 0 {
		return nil, errors.New("the prompt has no images")
	}
	for _, i := range prompt.Images {
		if err := isShown(prompt.Tokens, i.Image, i.PNG); err != nil {
			return nil, err
		}
	}
	for ; ; p.Seed++ { // a reply with tokens of images fails its rollout
		out, err := s.Bandit.Sample(ctx, prompt, p)
		if err != nil || out[0].Tokens[0] < pad {
			return out, err
		}
	}
}

// seeing are the overrides of a run with bandits that see images.
var seeing = []string{
	"trainer.trainer_type=test_seeing", "explorer.rollout_model.engine_type=test_seeing_sampler", "explorer.eval_interval=100",
	"buffer.explorer_input.taskset.format.image_key=images", "buffer.explorer_input.eval_tasksets=[]", "buffer.total_steps=4",
	"data_processor.experience_pipeline.output_save_path=DIR/kept.jsonl",
}

// newSeeing is newProject with a model that has a processor of images, and rows with one or two images.
func newSeeing(t *testing.T) project {
	t.Helper()
	p := newProject(t, tiny, rl)
	model := filepath.Join(p.dir, "model")
	var tokenizer map[string]any
	if err := json.Unmarshal([]byte(read(t, filepath.Join(model, "tokenizer.json"))), &tokenizer); err != nil {
		t.Fatal(err)
	}
	added := tokenizer["added_tokens"].([]any)
	for i, text := range []string{"<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|video_pad|>"} {
		token := map[string]any{}
		for key, value := range added[0].(map[string]any) {
			token[key] = value
		}
		token["id"], token["content"] = pad+i, text
		added = append(added, token)
	}
	tokenizer["added_tokens"] = added
	write(t, filepath.Join(model, "tokenizer.json"), encode(t, tokenizer))
	var settings map[string]any
	if err := json.Unmarshal([]byte(read(t, filepath.Join(model, "tokenizer_config.json"))), &settings); err != nil {
		t.Fatal(err)
	}
	settings["chat_template"] = `{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' }}{%- if m.content is string %}{{- m.content }}` +
		`{%- else %}{%- for p in m.content %}{%- if p.type == 'image' %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}` +
		`{%- else %}{{- p.text }}{%- endif %}{%- endfor %}{%- endif %}{{- '<|im_end|>\n' }}{%- endfor %}` +
		`{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}`
	write(t, filepath.Join(model, "tokenizer_config.json"), encode(t, settings))
	write(t, filepath.Join(model, "preprocessor_config.json"),
		`{"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 3136}`)
	var rows strings.Builder
	for i := range 12 {
		draw(t, filepath.Join(p.dir, "images", fmt.Sprintf("%d.png", i)), uint8(20*i))
		names := []string{fmt.Sprintf("images/%d.png", i)}
		if i%3 == 0 {
			names = append(names, "images/0.png")
		}
		rows.WriteString(encode(t, map[string]any{"question": "max <image>?", "answer": "1", "images": names}))
	}
	write(t, filepath.Join(p.dir, "train.jsonl"), rows.String())
	return p
}

// draw writes a square of one grey.
func draw(t *testing.T, path string, grey uint8) {
	t.Helper()
	square := image.NewGray(image.Rect(0, 0, 30, 30))
	for i := range square.Pix {
		square.Pix[i] = color.Gray{grey}.Y
	}
	var file bytes.Buffer
	if err := png.Encode(&file, square); err != nil {
		t.Fatal(err)
	}
	write(t, path, file.String())
}

func (p project) seeing(more ...string) []string {
	all := slices.Concat(seeing, more)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "DIR", p.dir)
	}
	return all
}

// kept returns the files of the images that a run has kept.
func (p project) images(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.job(), blobs.Folder, "*", "*.png"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	slices.Sort(files)
	return files
}

// A run shows its model the images of rows, and trains on experiences that name them. A run that is killed between
// an image and the experiences that name it ends with the same bytes.
func TestRunShowsImages(t *testing.T) {
	whole := newSeeing(t)
	whole.start(t, nil, whole.seeing()...).finish(t)
	if n := len(whole.images(t)); n < 4 || n > 12 {
		t.Fatalf("the run has kept %d images", n)
	}
	for _, rule := range []string{"explorer.rollouts=kill@2", "durable.file.rename=kill@2", "trainer.save=kill@1"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			p := whole.copyOf(t)
			if !p.killedAt(t, rule, p.seeing()...) {
				t.Fatal("the run was not killed")
			}
			p.start(t, nil, p.seeing()...).finish(t)
			got, want := results(t, p.dir), results(t, whole.dir)
			for _, r := range []result{got, want} { // it has times
				maps.DeleteFunc(r.curves, func(name string, _ []entry) bool { return strings.HasSuffix(name, "synchronizer") })
			}
			got.sameAs(t, want)
			if !slices.Equal(p.images(t), whole.images(t)) {
				t.Errorf("images %v, want %v", p.images(t), whole.images(t))
			}
		})
	}
}

// An explorer on another machine sends the images of its experiences to the trainer before it names them.
func TestExplorerElsewhereSendsImages(t *testing.T) {
	t.Parallel()
	p := newSeeing(t)
	elsewhere := p.copyOf(t)
	const token = "TRINITY_TOKEN=of the test"
	port := freePort(t)
	train := p.seeing("mode=train", "trainer.total_steps=4", "buffer.train_batch_size=12", "trainer.listen_address=127.0.0.1:"+port)
	trainer := p.start(t, []string{token}, train...)
	explore := []string{token, childJoin + "=http://127.0.0.1:" + port}
	first := elsewhere.start(t, append(explore, failpoint.Variable+"=images.sent=kill@1"), elsewhere.seeing("mode=explore")...)
	if !first.killedWithin(t, 0) {
		t.Error("the explorer was not killed")
	}
	if len(p.images(t)) == 0 {
		t.Error("the trainer has no image, and the explorer was killed after it had sent some")
	}
	elsewhere.start(t, explore, elsewhere.seeing("mode=explore")...).finish(t)
	trainer.finish(t)
	if got, want := p.images(t), elsewhere.images(t); len(got) == 0 || !slices.Equal(got, want) {
		t.Errorf("the trainer has the images %v, the explorer %v", got, want)
	}
}

// An image that cannot be shown is told before the run, with the line of its row.
func TestBadImagesAreToldBeforeTheRun(t *testing.T) {
	p := newSeeing(t)
	whole, err := os.ReadFile(filepath.Join(p.dir, "images", "1.png"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.dir, "images", "cut.png"), string(whole[:len(whole)/2]))
	for row, want := range map[string]string{
		`{"question": "a", "answer": "1", "images": ["images/cut.png"]}`:              "image 1 of 1 at images: the image cannot be read",
		`{"question": "a", "answer": "1", "images": "https://example.com/a.png"}`:     "is on the network",
		`{"question": "a", "answer": "1", "images": "../secret.png"}`:                 "is outside of",
		`{"question": "a", "answer": "1"}`:                                            `no field "images": check format.image_key`,
		`{"question": "a", "answer": "1", "images": "` + strings.Repeat("x", 220_000): "is neither an image, nor base64 of one, nor a path",
	} {
		if !strings.HasSuffix(row, "}") {
			row += `"}`
		}
		write(t, filepath.Join(p.dir, "train.jsonl"), row+"\n")
		_, err := runConfig(t, p.load(t, p.seeing()...))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "train.jsonl:1") || len(err.Error()) > 1000 {
			t.Errorf("%.80s: %.300v, want a line with %q and the row", row, err, want)
		}
		if _, err := settle.Facts(p.load(t, p.seeing()...).Settled()[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: the plan says %.300v, want %q", row, err, want)
		}
	}
}

// A row with too few images, and a workflow that shows none, fail rollouts and not the run.
func TestRolloutsWithoutTheirImagesFail(t *testing.T) {
	p := newSeeing(t)
	rows := read(t, filepath.Join(p.dir, "train.jsonl"))
	write(t, filepath.Join(p.dir, "train.jsonl"), rows+encode(t, map[string]any{"question": "<image><image>", "answer": "1",
		"images": "images/1.png"}))
	_, err := runConfig(t, p.load(t, p.seeing("explorer.max_failed_ratio=1", "buffer.batch_size=13", "buffer.total_steps=1")...))
	if err != nil {
		t.Fatal(err)
	}
	if got := curve(t, p.job(), "explorer", "rollout/failed_workflow_count"); !slices.Equal(got, []float64{4}) {
		t.Errorf("%v rollouts failed, want 4", got)
	}
}

// Engines that read text alone refuse images, with the engines that do.
func TestBlindEnginesAreNamed(t *testing.T) {
	p := newSeeing(t)
	for _, c := range []struct{ override, want string }{
		{"trainer.trainer_type=cpu", "images for the trainer cpu, which reads text alone"},
		{"explorer.rollout_model.engine_type=cpu", "images for the sampler cpu, which reads text alone"},
		{"buffer.explorer_input.taskset.format.video_key=v", "write frames as images do"},
		{"explorer.rollout_model.enable_multimodal=true explorer.rollout_model.engine_type=cpu", "enable_multimodal: not built into"},
	} {
		_, err := config.Load(p.config, config.Options{Overrides: p.seeing(strings.Fields(c.override)...)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.override, err, c.want)
		}
	}
}

// Demonstrations and pairs with images are rendered as prompts are, and train.
func TestDatasetsShowImages(t *testing.T) {
	for algorithm, row := range map[string]map[string]any{
		"sft": {"question": "max <image>?", "response": "1"},
		"dpo": {"question": "max <image>?", "chosen": "1", "rejected": "2"},
	} {
		t.Run(algorithm, func(t *testing.T) {
			p := newSeeing(t)
			write(t, p.config, strings.NewReplacer("DIR", p.dir, "ALGORITHM", algorithm).Replace(onDataset))
			var rows strings.Builder
			for i := range 12 {
				row["images"] = fmt.Sprintf("images/%d.png", i)
				rows.WriteString(encode(t, row))
			}
			write(t, filepath.Join(p.dir, algorithm+".jsonl"), rows.String())
			format := "buffer.trainer_input.experience_buffer.format.image_key=images"
			if _, err := runConfig(t, p.load(t, "trainer.trainer_type=test_seeing", format, "buffer.total_steps=3")); err != nil {
				t.Fatal(err)
			}
			if n := len(p.images(t)); n != 12 {
				t.Errorf("the run has kept %d images, want 12", n)
			}
			row["images"] = "images/none.png"
			write(t, filepath.Join(p.dir, algorithm+".jsonl"), rows.String()+encode(t, row))
			_, err := runConfig(t, p.load(t, "name=again", "trainer.trainer_type=test_seeing", format, "buffer.total_steps=3"))
			if want := algorithm + ".jsonl:13"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want an error with %s", err, want)
			}
		})
	}
}

// auto is an engine that reads images if rows have them.
func TestAutoSeesImages(t *testing.T) {
	p := newSeeing(t)
	auto := p.seeing("trainer.trainer_type=auto", "explorer.rollout_model.engine_type=auto")
	cfg, err := config.Load(p.config, config.Options{Overrides: auto})
	if err != nil {
		t.Fatal(err)
	}
	for kind, name := range map[string]string{"trainer": cfg.Settled()[0].Engines.Train, "sampler": cfg.Settled()[0].Engines.Sample} {
		catalog, _ := registry.Find(kind)
		if _, sees := catalog.Default(name).(interface{ SeesImages() }); !sees {
			t.Errorf("the %s is %s, which reads text alone", kind, name)
		}
	}
}
