package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/learn"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/internal/trainer"
)

// ReplayOptions choose a train step that a run has made, and how to make it again.
type ReplayOptions struct {
	Step      int64
	Config    string       // file of the run's configuration; "" is what the run keeps of it
	Overrides []string     // settings as key=value, with which the step is trained once more
	Say       func(string) // receives lines for people
}

// Replayed is a train step that was made again.
type Replayed struct {
	Dir       string // of the run, or of its stage
	From      int64  // step of the checkpoint; 0 is the model that the run began with
	Again     Retrained
	Otherwise *Retrained // with the overrides; nil without any
}

// Retrained is what a train step gave.
type Retrained struct {
	Metrics trinity.Metrics
	Trained trinity.Trained // all experiences
}

// Replay trains a step of the run or stage in dir again, in a directory of its own, from the newest checkpoint
// before the step. The experiences come from the run's buffer or dataset, as for a run that resumes.
// Replay writes nothing in dir.
func Replay(ctx context.Context, dir string, o ReplayOptions) (out *Replayed, err error) {
	r := replay{ReplayOptions: o, dir: dir}
	scratch, err := durable.NewScratch("trinity-replay-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	r.work = filepath.Join(scratch.Dir, "replay")
	if err := os.Mkdir(r.work, 0o755); err != nil {
		return nil, err
	}
	if err := r.copyBuffer(); err != nil {
		return nil, err
	}
	if err := record.LinkImages(r.dir, r.work); err != nil {
		return nil, err
	}
	out = &Replayed{Dir: r.dir}
	from := checkpoint.Dir{Path: r.dir}
	state, found, err := from.Before(o.Step)
	if err != nil {
		return nil, err
	}
	if out.From = state.Step; !found {
		out.From = 0
	}
	recorded, err := r.settled(ctx, nil)
	if err != nil {
		return nil, err
	}
	other, err := r.settled(ctx, o.Overrides) // before the training, for its errors
	if err != nil {
		return nil, err
	}
	if err := r.train(ctx, recorded, nil, from, &out.Again); err != nil || len(o.Overrides) == 0 {
		return out, err
	}
	if out.From < o.Step-1 { // the steps between were trained as the run did
		from.Path = r.work
	}
	out.Otherwise = &Retrained{}
	return out, r.train(ctx, other, recorded, from, out.Otherwise)
}

// Beginning names where a replay begins: the checkpoint of a step, or for step 0 the model.
func Beginning(step int64) string {
	if step == 0 {
		return "the model that the run began with"
	}
	return fmt.Sprintf("the checkpoint of step %d", step)
}

// replay is a train step that is made again.
type replay struct {
	ReplayOptions
	dir  string // of the run or stage
	work string // directory of what the replay writes
}

// TrainedLast returns the directory at or below dir of the run or stage that has trained last.
func TrainedLast(dir string) (string, error) {
	run, err := rundir.Open(dir)
	if err != nil {
		return "", err
	}
	for _, s := range run.Stages {
		if !s.Trained.IsZero() {
			return s.Dir, nil
		}
	}
	return "", fmt.Errorf("%s has no %s with a train step: is it the directory of a run that trains?", dir,
		rundir.Monitor+"/"+rundir.MetricsFile)
}

// copyBuffer copies the log of the experience buffer, which whoever opens it may change.
func (r *replay) copyBuffer() error {
	log := filepath.Join(r.dir, rundir.Buffer, feed.LogDir)
	if !record.Present(log) {
		return nil
	}
	return os.CopyFS(filepath.Join(r.work, rundir.Buffer, feed.LogDir), os.DirFS(log))
}

// settled reads the configuration and looks up its models. The run writes into r.work.
func (r *replay) settled(ctx context.Context, overrides []string) (*settle.Stage, error) {
	path := r.Config
	if path == "" {
		path = filepath.Join(r.dir, rundir.Monitor, rundir.SettingsFile)
	}
	cfg, err := config.Load(path, config.Options{Overrides: append([]string{"name=replay"}, overrides...)})
	if err != nil {
		return nil, err
	}
	var stage *config.Settled
	for _, c := range cfg.Settled() {
		if len(cfg.Stages) == 0 || filepath.Base(c.CheckpointJobDir) == filepath.Base(r.dir) {
			stage = c
		}
	}
	switch {
	case stage == nil:
		return nil, fmt.Errorf("%s has no stage %s", path, filepath.Base(r.dir))
	case !stage.Trains:
		return nil, fmt.Errorf("%s is of mode %s, which trains nothing: give the configuration that has trained with --config", path, stage.Mode)
	case stage.SharedStore:
		return nil, fmt.Errorf("%s: the experiences of this run are in %s, and replay reads files only: run with storage_type: queue", path,
			stage.Buffer.TrainerInput.ExperienceBuffer.StorageType)
	}
	record.MoveTo(&stage.Config, "replay", r.work)
	s, err := settle.Resolve(stage)
	if err != nil {
		return nil, err
	}
	return s, s.Fetch(ctx, r.Say)
}

// train trains the steps after the newest checkpoint before r.Step, up to that step, which it notes
// in out. recorded is the configuration of the run if cfg is another one, else nil.
func (r *replay) train(ctx context.Context, cfg, recorded *settle.Stage, from checkpoint.Dir, out *Retrained) (err error) {
	if err := cfg.Fits("", true, false); err != nil {
		return err
	}
	s, err := open(cfg, Options{Say: func(string) {}, Quiet: true}) // the run has said it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(record.EndOf(err, ctx))) }()
	source, steps, err := r.batches(ctx, s)
	if err != nil {
		return err
	}
	if recorded != nil {
		source = otherwiseScored(source, cfg, recorded)
	}
	if err := s.openModels(ctx, true, false); err != nil {
		return err
	}
	learner := s.learner(source)
	tr, err := learner.Options(ctx, steps)
	if err != nil {
		return err
	}
	state, found, err := from.Before(r.Step)
	if err != nil {
		return err
	}
	if found {
		tr.From, err = learner.Load(ctx, from.Of(state.Step), state)
	} else if s.queue != nil {
		err = s.queue.Restore(trinity.SourceState{})
	}
	if err == nil && s.queue != nil {
		err = r.pause(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("train step %d cannot be made again: %w; the buffer keeps what its newest checkpoints need: try a later step",
			r.Step, err)
	}
	if tr.From.Step < r.Step-1 {
		r.Say(fmt.Sprintf("the replay trains steps %d to %d first, from %s: trainer.save_interval=1 makes a run keep every checkpoint",
			tr.From.Step+1, r.Step-1, Beginning(tr.From.Step)))
	}
	tr.TotalSteps, tr.SaveInterval = r.Step, 1
	tr.Checkpointer = learner.Before(r.Step-1, tr.From.Step)
	step := &replayedStep{r.Step, r.Say, out}
	tr.Recorder = step
	tr.Tracing = trainer.Tracing{Tracer: step, Groups: -1, Every: max(1, r.Step-1)}
	if s.queue != nil {
		tr.Weights = learn.Unsampled{Policy: s.models.Policy}
	}
	err = trainer.New(tr).Run(ctx, ctx)
	if trainer.Starved(err) {
		err = fmt.Errorf("the experience buffer of %s does not have the batch: %w", r.dir, err)
	}
	if err == nil && out.Metrics == nil {
		err = fmt.Errorf("the data of %s ends before train step %d", r.dir, r.Step)
	}
	return err
}

// batches opens the source of the trainer's batches, and returns the number of train steps of the run.
func (r *replay) batches(ctx context.Context, s *stage) (source trinity.Source, steps int64, err error) {
	if s.Objective.Def.Offline || s.Recorded {
		return s.data.Offline(ctx)
	}
	if steps = int64(s.StepLimit()); s.Together {
		tasks, err := s.data.Mix(ctx)
		if err != nil {
			return nil, 0, err
		}
		steps = s.TrainSteps(exploreSteps(s.Settled, tasks))
	}
	s.Buffer.TrainerInput.ExperienceBuffer.MaxReadTimeout = readTimeout
	queue, err := s.store(ctx, feed.Groups(s.Settled))
	if err != nil {
		return nil, 0, err
	}
	source, err = s.data.Batches(ctx, queue)
	return source, steps, err
}

// pause tells the queue that its explorers put nothing more before a version that never comes: a batch
// that was short because its version had no more is short again.
func (r *replay) pause(ctx context.Context, s *stage) error {
	names, err := fleet.Explorers(r.dir)
	for _, name := range append(names, s.Explorer.Name) {
		err = errors.Join(err, s.queue.Sink(name).Pause(ctx, math.MaxInt64))
	}
	return err
}

// readTimeout is how long a replay waits for experiences, in seconds. They are there, or never come.
const readTimeout = 2

// replayedStep keeps what a trainer tells of one step.
type replayedStep struct {
	step int64
	say  func(string)
	out  *Retrained
}

// Log implements trainer.Recorder.
func (r *replayedStep) Log(_ context.Context, step int64, m trinity.Metrics) error {
	if step == r.step {
		r.out.Metrics = m
	}
	return nil
}

// Took implements trainer.Recorder.
func (r *replayedStep) Took(int64, []trinity.ExperienceID, map[string][]trinity.ExperienceID) error {
	return nil
}

// Progress implements trainer.Recorder.
func (r *replayedStep) Progress(string, int, int) {}

// Say implements trainer.Recorder.
func (r *replayedStep) Say(line string) { r.say(line) }

// Trained implements [trinity.Tracer].
func (r *replayedStep) Trained(t trinity.Trained) {
	if t.Step == r.step {
		r.out.Trained = t
	}
}

// Span implements [trinity.Tracer].
func (r *replayedStep) Span(trinity.Span) {}

// Failed implements [trinity.Tracer].
func (r *replayedStep) Failed(trinity.FailedRollout) {}

// otherwiseScored returns a source whose batches have the advantages of cfg, if the pipeline of the
// explorer has computed others before the buffer.
func otherwiseScored(source trinity.Source, cfg, recorded *settle.Stage) trinity.Source {
	is, was := cfg.Objective, recorded.Objective
	same := is.Def.Advantage == was.Def.Advantage && reflect.DeepEqual(is.Def.AdvantageArgs, was.Def.AdvantageArgs)
	if same || is.InPipeline() == nil {
		return source
	}
	return rescored{source, is.InPipeline()}
}

// rescored is a Source that computes the advantages again.
type rescored struct {
	trinity.Source
	advantage trinity.Advantage
}

// Take implements trinity.Source.
func (r rescored) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	taken, err := r.Source.Take(ctx, want)
	if err == nil {
		taken.Groups, _, err = r.advantage.Advantages(ctx, taken.Groups)
	}
	return taken, err
}
