package main

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/trace"
)

// quickstart is the run of the README, with traces or without.
type quickstart struct {
	dir, trace string
}

func newQuickstart(a *assignment) (task, error) { return &quickstart{a.Dir, a.Trace}, nil }

// run returns the seconds of a run. Warming up runs a few steps.
func (q *quickstart) run(number int) (sample, error) {
	root := filepath.Join(q.dir, strconv.Itoa(number))
	settings := []string{"checkpoint_root_dir=" + root, "monitor.monitor_type=jsonl", "monitor.trace=" + q.trace}
	if number == 0 {
		settings = append(settings, "stages.0.buffer.total_steps=2", "stages.1.buffer.total_steps=2")
	}
	cfg, err := config.Load("examples/quickstart/quickstart.yaml", config.Options{Overrides: settings})
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	_, err = run.Run(context.Background(), context.Background(), cfg, run.Options{Say: func(string) {}})
	return sample{Value: time.Since(start).Seconds()}, err
}

// step is the trace of a train step of GRPO as the trainer tells it: of 512 rollouts with 2,048 tokens,
// those of the four groups of eight that are kept.
type step struct {
	dir     string
	perByte bool
	told    trinity.Trained
}

const (
	stepGroups = 4
	stepTokens = 2048
)

func newStep(bytes bool) func(*assignment) (task, error) {
	return func(a *assignment) (task, error) {
		s := &step{dir: a.Dir, perByte: bytes}
		random := rand.New(rand.NewPCG(1, 0))
		for i := range stepGroups * group {
			e := trinity.Experience{
				ID:        trinity.ExperienceID{Step: 1, Task: "sums/" + strconv.Itoa(i/group), Run: i % group},
				PromptLen: promptSize, Temperature: 1, Reward: trinity.NewReward(map[string]float64{"accuracy": float64(i % 2)}),
			}
			var u trinity.Update
			for t := range stepTokens {
				var p, now, entropy, weight float32 // 0 in the prompt
				if t >= promptSize {
					p, entropy, weight = -float32(random.ExpFloat64())/2, float32(random.ExpFloat64()), float32(i%2)-.5
					now = p * (1 + float32(random.NormFloat64())*1e-4) // as another engine computes it
				}
				e.Tokens, e.Mask = append(e.Tokens, random.Int32N(49152)), append(e.Mask, t >= promptSize)
				e.Logprobs, e.Advantages = append(e.Logprobs, p), append(e.Advantages, weight)
				u.Now.Logprob, u.Now.Entropy = append(u.Now.Logprob, now), append(u.Now.Entropy, entropy)
				u.Grads.Logprob = append(u.Grads.Logprob, weight/(512*stepTokens))
			}
			s.told.Experiences = append(s.told.Experiences, trinity.TrainedExperience{Experience: e, Updates: []trinity.Update{u}})
		}
		return s, nil
	}
}

// run returns the milliseconds until the step is on the disk, or the bytes of a token there.
func (s *step) run(number int) (sample, error) {
	dir := filepath.Join(s.dir, strconv.Itoa(number))
	var said error
	word := func(int32) string { return "token" }
	w, err := trace.New(trace.Options{Dir: dir, Text: word, Say: func(line string) { said = errors.New(line) }})
	if err != nil {
		return sample{}, err
	}
	s.told.Step = 1
	start := time.Now()
	w.Trained(s.told)
	if err := errors.Join(w.Close(), said); err != nil {
		return sample{}, err
	}
	took := time.Since(start)
	info, err := os.Stat(trace.StepFile(dir, 1))
	if errors.Is(err, fs.ErrNotExist) {
		return sample{}, errors.New("the trace left the step out")
	}
	if err != nil {
		return sample{}, err
	}
	if s.perByte {
		return sample{Value: float64(info.Size()) / (stepGroups * group * stepTokens)}, nil
	}
	return sample{Value: took.Seconds() * 1e3}, nil
}
