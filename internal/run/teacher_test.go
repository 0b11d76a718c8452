package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// distilled is rl with a teacher in place of rewards.
var distilled = strings.Replace(rl, "algorithm_type: grpo,", "algorithm_type: on_policy_distill,", 1)

const teacherKey = "explorer.auxiliary_models.0"

// teachers returns the override for teachers below the project's directory.
func (p project) teachers(names ...string) string {
	var list []string
	for _, n := range names {
		list = append(list, "{name: "+n+", model_path: "+filepath.Join(p.dir, n)+"}")
	}
	return "explorer.auxiliary_models=[" + strings.Join(list, ", ") + "]"
}

// teacher writes a model that so many steps have taught the demonstrations.
func (p project) teacher(t *testing.T, name string, steps int) {
	t.Helper()
	school := project{dir: p.dir, config: filepath.Join(p.dir, "school.yaml")}
	write(t, school.config, strings.NewReplacer("DIR/checkpoints", p.dir+"/school", "DIR", p.dir).Replace(sft))
	summary, err := school.run(t, "buffer.train_batch_size=32", fmt.Sprint("buffer.total_steps=", steps), "trainer.save_interval=0")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(p.dir, name), os.DirFS(summary.Stages[0].Model)); err != nil {
		t.Fatal(err)
	}
}

func TestATeacherTeaches(t *testing.T) {
	p := newProject(t, tiny, distilled)
	p.teacher(t, "master", 60)
	if _, err := p.run(t, p.teachers("master"), "buffer.total_steps=80", "buffer.batch_size=8",
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=32", noEvaluation, "model.max_response_tokens=12"); err != nil {
		t.Fatal(err)
	}
	kl := curve(t, p.job(), "trainer", "critic/kl/mean")
	if len(kl) != 80 || mean(kl[:5]) < 0.5 || mean(kl[70:]) > 0.5*mean(kl[:5]) {
		t.Errorf("the divergence from the teacher is %v; want it to fall to a half", kl)
	}
}

// A teacher that is the student itself teaches nothing, to the last bit.
func TestTheStudentTeachesItselfNothing(t *testing.T) {
	p := newProject(t, tiny, distilled)
	p.teacher(t, "model2", 1)
	if _, err := p.run(t, p.teachers("model2"), "model.model_path="+filepath.Join(p.dir, "model2"), "algorithm.optimizer.lr=0",
		noEvaluation); err != nil {
		t.Fatal(err)
	}
	if kl := curve(t, p.job(), "trainer", "critic/kl/mean"); len(kl) != 8 || slices.Max(kl) != 0 || slices.Min(kl) != 0 {
		t.Errorf("%v", kl)
	}
}

// A teacher behind servers teaches what it teaches here.
func TestATeacherBehindServers(t *testing.T) {
	p := newProject(t, tiny, distilled)
	p.teacher(t, "master", 20)
	master := filepath.Join(p.dir, "master")
	run := func(name string, overrides ...string) []float64 {
		t.Helper()
		if _, err := p.run(t, append(overrides, "name="+name, "buffer.total_steps=3", noEvaluation)...); err != nil {
			t.Fatal(err)
		}
		return curve(t, filepath.Join(filepath.Dir(p.job()), name), "trainer", "critic/kl/mean")
	}
	want := run("here", p.teachers("master"))
	for kind, start := range map[string]func(server.Host, trinity.Sampler, server.Options) *server.Fake{
		"vllm": server.VLLM, "sglang": server.SGLang,
	} {
		fake := start(t, p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: servedLen})
		fake.Open = p.scoring(0, func() {})
		if err := fake.ScoreWith(t.Context(), master); err != nil {
			t.Fatal(err)
		}
		teacher := "explorer.auxiliary_models=[{name: master, engine_type: " + kind + ", base_urls: [" + fake.URL + "]}]"
		got := run(kind, teacher)
		off := func(i int) bool { return math.Abs(got[i]-want[i]) > 1e-5 }
		if len(got) != 3 || slices.Max(got) == 0 || off(0) || off(1) || off(2) {
			t.Errorf("%s: the divergences from the teacher are %v, and %v from the same one here", kind, got, want)
		}
		fake.Tell(server.NoKeys)
		_, err := p.run(t, teacher, "name=lies", noEvaluation)
		oneLine(t, err, teacherKey, fake.URL, "no log-probability")
	}
	fake := server.LlamaServer(t, p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: servedLen})
	_, err := p.run(t, "explorer.auxiliary_models=[{engine_type: llama_server, base_urls: ["+fake.URL+"]}]", "name=llama", noEvaluation)
	oneLine(t, err, teacherKey, fake.URL, "scores no tokens")
	fake = server.VLLM(t, p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: 46})
	_, err = p.run(t, "explorer.auxiliary_models=[{engine_type: vllm, base_urls: ["+fake.URL+"]}]", "name=short", noEvaluation)
	oneLine(t, err, teacherKey, "takes 46 tokens, no more than model.max_model_len", "start it with 47")
}

func TestTeachersAreCheckedAndPlanned(t *testing.T) {
	p := newProject(t, tiny, distilled)
	p.teacher(t, "master", 1)
	facts := func() error {
		_, err := settle.Facts(p.load(t, p.teachers("master")).Settled()[0])
		return err
	}
	f, err := settle.Facts(p.load(t, p.teachers("master")).Settled()[0])
	if n := len(f.Memory) - 1; err != nil || f.Memory[n].Kind != "teacher" || f.Memory[n].Bytes < 4*54_464 {
		t.Errorf("planned is %v, %v; want a teacher of more than its weights", f.Memory, err)
	}
	if f, err := settle.Facts(p.load(t, p.teachers("none")).Settled()[0]); err != nil || f.Missing[teacherKey+".model_path"] == "" {
		t.Errorf("missing is %v, %v; want the teacher", f.Missing, err)
	}
	tokenizer, shape := filepath.Join(p.dir, "master", "tokenizer.json"), filepath.Join(p.dir, "master", "config.json")
	for name, c := range map[string]struct {
		path  string
		spoil func(text string) string
		words []string
	}{
		"another tokenizer": {tokenizer, func(s string) string { return strings.ReplaceAll(s, "<answer>", "<reply>") },
			[]string{"another tokenizer", "<reply>"}},
		"fewer tokens":    {shape, with(t, "vocab_size", 200), []string{"vocabulary of 200"}},
		"short sequences": {shape, with(t, "max_position_embeddings", 45), []string{"positions for 45 tokens", "model.max_model_len is 46"}},
	} {
		t.Run(name, func(t *testing.T) {
			was := read(t, c.path)
			defer write(t, c.path, was)
			write(t, c.path, c.spoil(was))
			oneLine(t, facts(), append(c.words, teacherKey)...)
			_, err := p.run(t, p.teachers("master"))
			oneLine(t, err, c.words...)
		})
	}
	if err := os.Remove(tokenizer); err != nil {
		t.Fatal(err)
	}
	oneLine(t, facts(), teacherKey, "has no tokenizer")
}

// with returns a function that sets a key of a JSON object.
func with(t *testing.T, key string, value any) func(string) string {
	return func(text string) string {
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		object[key] = value
		return encode(t, object)
	}
}

// muteSampler scores no tokens, and says whether it was closed.
type muteSampler struct {
	trinity.Sampler
	closed *bool
}

func (m muteSampler) Close() error { *m.closed = true; return errors.New("it hangs") }

type muteOpener struct {
	banditSampler
	closed *bool
}

func (*muteOpener) Reads(*config.Settled) map[string]string {
	return map[string]string{"explorer.rollout_model.base_urls": "", "explorer.rollout_model.api_key": ""}
}

func (o *muteOpener) OpenSampler(context.Context, engine.SamplerSpec) (trinity.Sampler, error) {
	return muteSampler{closed: o.closed}, nil
}

// A teacher's servers that score nothing are closed, and one line says both failures.
func TestTeacherThatScoresNothing(t *testing.T) {
	closed := false
	registry.Samplers.Register("test_mute", "A sampler that scores no tokens.",
		func() engine.SamplerOpener { return &muteOpener{closed: &closed} })
	p := newProject(t, tiny, distilled)
	_, err := p.run(t, "explorer.auxiliary_models=[{engine_type: test_mute, base_urls: [http://127.0.0.1:1]}]", noEvaluation)
	oneLine(t, err, teacherKey, "test_mute scores no tokens", "closing it: it hangs")
	if !closed {
		t.Error("the sampler was not closed")
	}
}
