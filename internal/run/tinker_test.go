package run_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run/service"
	"github.com/trinity-go/trinity/model"
)

// startService serves the model of a project, with weights, at an address that it returns, until the test or stop ends it.
func startService(t *testing.T, p project, address, dir string) (url string, stop func()) {
	t.Helper()
	cfg, err := model.ReadConfig(filepath.Join(p.dir, "model"))
	if err != nil {
		t.Fatal(err)
	}
	if !model.HasWeights(filepath.Join(p.dir, "model")) {
		m, err := model.RandomInit(cfg, 3, "fan_in")
		if err != nil {
			t.Fatal(err)
		}
		if err := model.WriteDir(filepath.Join(p.dir, "model"), cfg, m, "f32"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	ended, begun := make(chan error, 1), make(chan string, 1)
	serves := regexp.MustCompile(`serves at (http://[^:]+:\d+)`)
	go func() {
		ended <- service.Run(ctx, service.Options{
			Dir: dir, Models: []service.Model{{Name: "tiny", Path: filepath.Join(p.dir, "model")}}, Trainer: "cpu", Sampler: "cpu",
			Address: address, Alpha: 32, Gap: time.Minute, Say: func(line string) {
				if found := serves.FindStringSubmatch(line); found != nil {
					begun <- found[1]
				}
			},
		})
	}()
	over := errors.New("the test is over")
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel(over)
		if err := <-ended; !errors.Is(err, over) {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	select {
	case url = <-begun:
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("the service does not begin")
	}
	return url, stop
}

// atService are the overrides of a run through a service.
func atService(name, url string) []string {
	return []string{
		"name=" + name, "model.tinker.enable=true", "model.tinker.rank=4", "model.tinker.train_unembed=false", "model.tinker.base_url=" + url,
		"model.tinker.base_model=tiny", "trainer.save_hf_checkpoint=never",
	}
}

// TestARunThroughAServiceEqualsTheDirectRun compares the curves of two runs, one of which trains and samples through a service.
func TestARunThroughAServiceEqualsTheDirectRun(t *testing.T) {
	p := newProject(t, tiny, rl)
	url, _ := startService(t, p, "127.0.0.1:0", t.TempDir())
	t.Setenv("TINKER_API_KEY", "tml-not-for-eyes")
	kl := []string{"algorithm.kl_loss_fn=k2", "algorithm.kl_loss_fn_args={kl_coef: 0.01}"}
	for _, overrides := range [][]string{
		append([]string{"name=here", "model.lora_configs=[{lora_rank: 4}]", "algorithm.entropy_loss_fn=none"}, kl...),
		append(atService("there", url), kl...),
	} {
		if _, err := p.run(t, overrides...); err != nil {
			t.Fatal(err)
		}
	}
	sameCurves(t, p, "here", "there", []series{
		{"explorer", "rollout/accuracy/mean"}, {"explorer", "eval/few/accuracy/mean@2"}, {"trainer", "actor/grad_norm"},
		{"trainer", "actor/pg_loss"}, {"trainer", "actor/kl_loss"}, {"trainer", "actor/lr"},
	})
	for _, file := range filesBelow(t, filepath.Join(p.dir, "checkpoints", "p", "there")) {
		if strings.Contains(read(t, file), "not-for-eyes") {
			t.Errorf("%s has the key", file)
		}
	}
}

// filesBelow lists the files below a directory.
func filesBelow(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all = append(all, path)
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	return all
}

// series is a metric of a loop.
type series struct{ role, metric string }

// sameCurves compares the metrics of two runs.
func sameCurves(t *testing.T, p project, here, there string, all []series) {
	t.Helper()
	for _, of := range all {
		a := curve(t, filepath.Join(p.dir, "checkpoints", "p", here), of.role, of.metric)
		b := curve(t, filepath.Join(p.dir, "checkpoints", "p", there), of.role, of.metric)
		if len(a) == 0 || !slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= 1e-4*max(1, math.Abs(x)) }) {
			t.Errorf("%s %s:\n%v here\n%v through a service", of.role, of.metric, a, b)
		}
	}
}

// TestDatasetsAreTrainedOnThroughAService trains on demonstrations, on pairs and on what a teacher says of rollouts.
func TestDatasetsAreTrainedOnThroughAService(t *testing.T) {
	for name, c := range map[string]struct {
		yaml      string
		overrides []string
	}{
		"sft": {sft, nil},
		"dpo": {strings.ReplaceAll(onDataset, "ALGORITHM", "dpo"), []string{"buffer.total_steps=4"}},
		"rloo": {rl, []string{"algorithm.algorithm_type=rloo", "buffer.total_steps=3", "explorer.eval_interval=99", "algorithm.kl_loss_fn=k3",
			"algorithm.policy_loss_fn_args={clip_range: 0.1}"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, tiny, c.yaml)
			url, _ := startService(t, p, "127.0.0.1:0", t.TempDir())
			for _, overrides := range [][]string{{"name=here", "model.lora_configs=[{lora_rank: 4}]"}, atService("there", url)} {
				if _, err := p.run(t, append(overrides, c.overrides...)...); err != nil {
					t.Fatal(err)
				}
			}
			sameCurves(t, p, "here", "there", []series{{"trainer", "actor/grad_norm"}, {"trainer", "actor/final_loss"}})
		})
	}
}

// TestARunThroughAServiceResumes loses its service in the middle, which begins anew at the same address.
func TestARunThroughAServiceResumes(t *testing.T) {
	p, dir := newProject(t, tiny, rl), t.TempDir()
	url, stop := startService(t, p, "127.0.0.1:0", dir)
	const rate = "algorithm.optimizer.lr_scheduler_type=constant" // which the number of steps does not change
	if _, err := p.run(t, append(atService("whole", url), rate)...); err != nil {
		t.Fatal(err)
	}
	cut := append(atService("cut", url), rate, "trainer.trainer_args={patience: 1}")
	if _, err := p.run(t, append(slices.Clip(cut), "trainer.total_steps=5")...); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := p.run(t, cut...); err == nil || !strings.Contains(err.Error(), url) || !errors.As(err, new(*trinity.EngineError)) {
		t.Fatalf("a service that is gone: %v; want an engine error that names it", err)
	}
	startService(t, p, strings.TrimPrefix(url, "http://"), dir)
	if _, err := p.run(t, cut...); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct{ role, metric string }{{"trainer", "actor/grad_norm"}, {"explorer", "rollout/accuracy/mean"}} {
		whole := curve(t, filepath.Join(p.dir, "checkpoints", "p", "whole"), of.role, of.metric)
		resumed := curve(t, filepath.Join(p.dir, "checkpoints", "p", "cut"), of.role, of.metric)
		if len(whole) == 0 || !slices.Equal(whole, resumed) {
			t.Errorf("%s:\n%v\n%v resumed", of.metric, whole, resumed)
		}
	}
}
