package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/ledger"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/monitor"
)

// recorder sends records to every monitor and sums them up for the closing table.
type recorder struct {
	monitors []trinity.Monitor
	failures *os.File      // one line per failed rollout
	dir      string        // of log files
	trace    *trace.Writer // nil if nothing is kept
	waits    *waits
	tell     func(number int, who any, call func()) // calls a monitor

	mu      sync.Mutex
	summary StageSummary
	ledgers map[string]*ledger.Writer // by role; those that have a record
}

// newRecorder opens the log of failed rollouts in dir.
func newRecorder(dir string, monitors []trinity.Monitor) (*recorder, error) {
	f, err := openLines(dir, rundir.FailedLog)
	if err != nil {
		return nil, err
	}
	return &recorder{monitors: monitors, failures: f, dir: dir, ledgers: map[string]*ledger.Writer{}}, nil
}

// openLines opens a file for lines for people, to be appended.
func openLines(dir, name string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
}

// record sends the record of one role's step, now.
func (r *recorder) record(ctx context.Context, rec trinity.Record) error {
	rec.Time = time.Now()
	r.mu.Lock()
	r.summary.add(rec)
	r.mu.Unlock()
	var errs []error
	for i, mon := range r.monitors {
		r.tell(i, mon, func() {
			if err := mon.Log(ctx, rec); err != nil {
				errs = append(errs, fmt.Errorf("monitor %T: %w", mon, err))
			}
		})
	}
	return errors.Join(errs...)
}

// account adds a record to the ledger of a role.
func (r *recorder) account(role string, s ledger.Step) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.ledgers[role]
	if w == nil {
		if w, err = ledger.Open(r.dir, role); err != nil {
			return err
		}
		r.ledgers[role] = w
	}
	return w.Append(s)
}

// progress shows what a role is doing. Nothing is shown before the monitors are open.
func (s *stage) progress(role, doing string, done, total int) {
	s.opts.activity.set(role, doing, done, total)
	if s.log == nil {
		return
	}
	who := ""
	if total == 0 {
		who = awaited(s, role)
	}
	s.log.waits.set(role, who)
	for i, m := range s.log.monitors {
		if p, ok := m.(monitor.Progressor); ok {
			s.log.tell(i, m, func() { p.Progress(role, doing, done, total) })
		}
	}
}

// delivered sends the metrics of a version that has come into use.
func (r *recorder) delivered(ctx context.Context, version int64, m trinity.Metrics) error {
	return r.record(ctx, trinity.Record{Step: version, Role: "synchronizer", Metrics: m})
}

// ended notes in the trainer's ledger that the trainer has taken its last batch.
func (r *recorder) ended() error {
	if r.ledgers[trinity.RoleTrainer] == nil {
		return nil
	}
	return r.account(trinity.RoleTrainer, ledger.Step{Ended: true})
}

// checkpoint notes the newest checkpoint, and the model in it if there is one.
func (r *recorder) checkpoint(step int64, dir, model string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Checkpoint, r.summary.Steps = dir, step
	if present(model) {
		r.summary.Model = model
	}
}

// explorerRecorder implements explorer.Recorder.
type explorerRecorder struct{ *stage }

// Log implements explorer.Recorder.
func (r explorerRecorder) Log(ctx context.Context, rec trinity.Record) error {
	rec.Role = trinity.RoleExplorer
	return r.log.record(ctx, rec)
}

// Warn implements explorer.Recorder: it adds a line to the log of failed rollouts.
func (r explorerRecorder) Warn(err error) {
	fmt.Fprintf(r.log.failures, "%s %v\n", time.Now().Format(time.RFC3339), err)
}

// Say implements explorer.Recorder.
func (r explorerRecorder) Say(line string) { r.say(line) }

// trainerRecorder implements trainer.Recorder. It holds the stage, which opens its recorder only
// after it has made the trainer's options.
type trainerRecorder struct{ *stage }

// Log implements trainer.Recorder.
func (r trainerRecorder) Log(ctx context.Context, step int64, m trinity.Metrics) error {
	return r.log.record(ctx, trinity.Record{Step: step, Role: trinity.RoleTrainer, Metrics: m})
}

// Took implements trainer.Recorder.
func (r trainerRecorder) Took(step int64, trained []trinity.ExperienceID, dropped map[string][]trinity.ExperienceID) error {
	s := ledger.Step{Step: step, Trained: trained, Dropped: map[string]ledger.IDs{}}
	for who, ids := range dropped {
		if len(ids) > 0 {
			s.Dropped[who] = ids
		}
	}
	if b := r.Buffer.TrainerInput.ExperienceBuffer; b != nil {
		s.Replay = b.ReplayBuffer.Enable
	}
	return r.log.account(trinity.RoleTrainer, s)
}

// Progress implements trainer.Recorder.
func (r trainerRecorder) Progress(doing string, done, total int) {
	r.progress(trinity.RoleTrainer, doing, done, total)
}

// Say implements trainer.Recorder.
func (r trainerRecorder) Say(line string) { r.say(line) }

// close closes all files and monitors, and tells the monitors how the run ended.
func (r *recorder) close(status monitor.Status) error {
	errs := []error{r.failures.Close()}
	if r.trace != nil {
		errs = append(errs, r.trace.Close())
	}
	for _, w := range r.ledgers {
		errs = append(errs, w.Close())
	}
	return errors.Join(append(errs, monitor.Close(r.monitors, status))...)
}

// monitored returns what the monitors must know of a stage, and its configuration tells.
func monitored(cfg *Settled) (monitor.Run, error) {
	text, err := cfg.Config.YAML()
	return monitor.Run{
		Dir: cfg.Monitor.CacheDir, Parts: parts(cfg), Project: cfg.Project, Group: cfg.Group, Name: cfg.Name,
		Trains: cfg.Trains, FromData: cfg.ReadsDataset, Config: text, Settings: cfg.Config.Settings(),
	}, err
}

// openLog opens the monitors and the log of failed rollouts. A run that was killed may have left
// records after fromStep, which the monitors drop.
func (s *stage) openLog(fromStep int64, total int64) error {
	cfg := s.Settled
	run, err := monitored(cfg)
	if err != nil {
		return err
	}
	run.FromStep, run.TotalSteps, run.Shows, run.Quiet, run.Say = fromStep, total, s.opts.Console, s.opts.Quiet, s.say
	mons, err := monitor.Open(cfg.Monitor.MonitorType, cfg.Monitor.MonitorArgs, run)
	if err != nil {
		return err
	}
	if err := keepSettings(cfg.Settled); err != nil {
		return err
	}
	if s.log, err = newRecorder(cfg.Log.SaveDir, mons); err != nil {
		return err
	}
	if err := s.said.Keep(cfg.Monitor.CacheDir); err != nil {
		s.say(fmt.Sprintf("what the run says is not kept: %v", err))
	}
	s.log.tell, s.log.trace, s.log.waits = tracer{s}.tell, openTrace(s, fromStep), newWaits(s.Settled)
	if s.opts.Brief {
		return nil
	}
	line := fmt.Sprintf("%s: mode %s, algorithm %s, model %s", cfg.Name, cfg.Mode, cfg.Algorithm.AlgorithmType, s.modelPath)
	if loras := s.Model.LoraConfigs; len(loras) > 0 && loras[0].Path != "" {
		line += ", adapter " + loras[0].Path
	}
	if fromStep > 0 {
		line += fmt.Sprintf(", resumes after step %d", fromStep)
	}
	s.say(line + "; writes to " + cfg.CheckpointJobDir)
	return nil
}
