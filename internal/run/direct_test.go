package run_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest/server"
)

func init() {
	registry.Trainers.Register("test_sender", "The embedded engine, whose weights a fake sends.", func() engine.TrainerOpener {
		opener, err := registry.Trainers.Build("cpu", nil)
		if err != nil {
			panic(err)
		}
		return senderOpener{opener}
	})
}

// senderOpener opens engines that send weights.
type senderOpener struct{ engine.TrainerOpener }

func (senderOpener) SendsWeights() {}

func (o senderOpener) OpenTrainer(ctx context.Context, spec engine.TrainerSpec) (engine.Trainer, error) {
	opened, err := o.TrainerOpener.OpenTrainer(ctx, spec)
	if err != nil || !spec.Ahead { // a version must stay until the next one is offered
		return opened, err
	}
	return server.NewSender(opened.(engine.Publisher), filepath.Join(spec.Dir, "sender")), nil
}

// direct returns a run whose trainer sends weights to a fake server.
func direct(t *testing.T, kind string) (project, *server.Fake, []string) {
	t.Helper()
	p := newProject(t, tiny, rl)
	o, start := server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true, Fetches: true, CPU: true}, server.VLLM
	if kind == "sglang" {
		start = server.SGLang
	}
	fake := start(t, p.inServer(t, 99), o)
	fake.Open, fake.Base = p.scoring(0, func() {}), filepath.Join(p.dir, "model")
	return p, fake, []string{
		"trainer.trainer_type=test_sender", "explorer.rollout_model.engine_type=" + kind, "explorer.rollout_model.base_urls=[" + fake.URL + "]",
		"synchronizer.sync_method=direct", "buffer.total_steps=3",
	}
}

// Every version reaches the server without a file of the run, proven, and a run that resumes gives the
// one with which it begins.
func TestWeightsWithoutFiles(t *testing.T) {
	for _, kind := range []string{"vllm", "sglang"} {
		p, fake, overrides := direct(t, kind)
		if _, err := p.run(t, overrides...); err != nil {
			t.Fatal(kind, err)
		}
		got := curve(t, p.job(), "synchronizer", "sync/probe_mean")
		if len(got) != 4 || slices.Max(got) > 1e-5 || len(fake.Loads()) != 4 || len(curve(t, p.job(), "synchronizer", "sync/transfer")) != 4 {
			t.Errorf("%s: the probe found differences of %v nats in the versions %v", kind, got, fake.Loads())
		}
		if files, err := filepath.Glob(filepath.Join(p.job(), "buffer", "*", "weights", "*")); err != nil || len(files) > 0 {
			t.Errorf("%s: files of versions: %v, %v", kind, files, err)
		}
		if _, err := p.run(t, append(overrides, "buffer.total_steps=4")...); err != nil {
			t.Fatal(kind, err)
		}
		if loads := fake.Loads(); len(loads) != 6 || !strings.HasSuffix(loads[4], "-3") || !strings.HasSuffix(loads[5], "-4") {
			t.Errorf("%s: after resuming: %v", kind, loads)
		}
	}
}

// What a server does wrong with tensors is found, as with files.
func TestLiesAboutWeightsWithoutFiles(t *testing.T) {
	for _, c := range []struct {
		lie  server.Lie
		want string
	}{
		{server.OldWeights, "probe: "},
		{server.DoesNothing, "1 ranks of the server have not come"},
		{server.OneShort, "probe: "},
		{server.RefusesWeights, "no safetensors"},
	} {
		p, fake, overrides := direct(t, "vllm")
		loaded := 0
		fake.Open = p.scoring(0, func() {
			if loaded++; loaded == 2 {
				fake.Tell(c.lie)
			}
		})
		_, err := p.run(t, append(overrides, "explorer.rollout_model.engine_args={load_timeout: 4}")...)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "sync_method: directory sends files instead") {
			t.Errorf("%s: got %v, want %q", c.lie, err, c.want)
		}
	}
}

// A server that takes no tensors is refused, and gets files by the default way.
func TestServerTakesNoTensors(t *testing.T) {
	for method, want := range map[string]string{"nccl": "", "direct": "it takes weights from a directory alone"} {
		p, _, overrides := direct(t, "vllm")
		fake := server.VLLM(t, p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true})
		fake.Open = p.scoring(0, func() {})
		_, err := p.run(t, append(overrides, "explorer.rollout_model.base_urls=["+fake.URL+"]", "synchronizer.sync_method="+method)...)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", method, err, want)
		}
		if want == "" && len(fake.Loads()) != 4 {
			t.Errorf("%s: loaded %v", method, fake.Loads())
		}
	}
}

// Where tensors cannot be sent, a file that names the way is refused by its line.
func TestWhereTensorsCannotBeSent(t *testing.T) {
	p, _, overrides := direct(t, "vllm")
	for _, c := range []struct{ override, want string }{
		{"buffer.total_steps=3", ""},
		{"synchronizer.sync_style=fully_async", "no direct way with the sync_style fully_async"},
		{"model.lora_configs=[{lora_rank: 4}]", "no direct way for an adapter"},
		{"trainer.trainer_type=cpu", `no direct way from the trainer "cpu", which sends no weights`},
		{"explorer.rollout_model.engine_type=llama_server", `no direct way to the sampler "llama_server", which takes no tensors`},
	} {
		_, err := config.Load(p.config, config.Options{Overrides: append(slices.Clone(overrides), c.override)})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.override, err, c.want)
		}
	}
}
