// Package record keeps and tells what a run does: monitors, traces, ledgers, lines for people, its end and its
// report. It also names, makes and locks the directories of a run.
package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/experience/ledger"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/monitor"
)

// Log tells those who watch a stage what it does: monitors, files and people. It implements trinity.Tracer. Before it
// is open it tells people alone.
type Log struct {
	LogOptions
	Scrub scrub
	// Evaluated takes each record before the monitors do, for who compares evaluations; may be nil.
	Evaluated func(trinity.Record) error

	cfg    *config.Settled
	tokens trace.Tokens
	said   *monitor.Messages
	joined joined   // the trainer in another process; nil without one
	broken sync.Map // of those whom it tells, those that have panicked

	began    bool
	monitors []trinity.Monitor
	failures *os.File      // one line per failed rollout
	trace    *trace.Writer // nil if nothing is kept
	waits    *waits

	mu      sync.Mutex
	summary StageSummary
	watch   *watch
	trained int64                     // steps of the newest checkpoint; the explorer's records may pass it
	ledgers map[string]*ledger.Writer // by role; those that have a record
}

// LogOptions say what a log shows.
type LogOptions struct {
	Say            func(string) // receives lines for people
	Console, Quiet bool
	Brief          bool
	Activity       *Activity // may be nil
}

// joined is the trainer in another process, which wants the spans.
type joined interface{ Span(trinity.Span) }

// NewLog returns the log of a stage, without secrets in its lines. tokens spells token IDs of the policy.
func NewLog(cfg *config.Settled, o LogOptions, tokens trace.Tokens) *Log {
	l := &Log{
		LogOptions: o, Scrub: ScrubOf(&cfg.Config), cfg: cfg, tokens: tokens, said: &monitor.Messages{To: o.Say},
		ledgers: map[string]*ledger.Writer{}, watch: newWatch(cfg),
	}
	l.Say = l.Scrub.lines(l.said.Say)
	return l
}

// Join makes the log tell the trainer in another process, too.
func (l *Log) Join(trainer joined) { l.joined = trainer }

// Open opens the monitors and the log of failed rollouts. A run that was killed may have left
// records after fromStep, which the monitors drop.
func (l *Log) Open(fromStep, total int64, modelPath string) (err error) {
	cfg := l.cfg
	run, err := monitored(cfg)
	if err != nil {
		return err
	}
	run.FromStep, run.TotalSteps, run.Shows, run.Quiet, run.Say = fromStep, total, l.Console, l.Quiet, l.Say
	if l.monitors, err = monitor.Open(cfg.Monitor.MonitorType, cfg.Monitor.MonitorArgs, run); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, monitor.Close(l.monitors, monitor.Failed))
			l.monitors = nil
		}
	}()
	if err := keepSettings(cfg); err != nil {
		return err
	}
	if l.failures, err = OpenLines(cfg.Log.SaveDir, rundir.FailedLog); err != nil {
		return err
	}
	if err := l.said.Keep(cfg.Monitor.CacheDir); err != nil {
		l.Say(fmt.Sprintf("what the run says is not kept: %v", err))
	}
	if err := l.watch.recall(cfg.Monitor.CacheDir); err != nil {
		return err
	}
	l.trace, l.waits, l.began = l.openTrace(fromStep), newWaits(cfg), true
	if l.Brief {
		return nil
	}
	line := fmt.Sprintf("%s: mode %s, algorithm %s, model %s", cfg.Name, cfg.Mode, cfg.Algorithm.AlgorithmType, modelPath)
	if loras := cfg.Model.LoraConfigs; len(loras) > 0 && loras[0].Path != "" {
		line += ", adapter " + loras[0].Path
	}
	if fromStep > 0 {
		line += fmt.Sprintf(", resumes after step %d", fromStep)
	}
	l.Say(line + "; writes to " + cfg.CheckpointJobDir)
	return nil
}

// OpenLines opens a file for lines for people, to be appended.
func OpenLines(dir, name string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
}

// Record sends the record of one role's step, now.
func (l *Log) Record(ctx context.Context, rec trinity.Record) error {
	rec.Time = time.Now()
	if l.Evaluated != nil {
		if err := l.Evaluated(rec); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.summary.add(rec)
	lines := l.watch.add(rec)
	l.mu.Unlock()
	for _, line := range lines {
		l.Say(line)
	}
	var errs []error
	for i, mon := range l.monitors {
		l.tell(i, mon, func() {
			if err := mon.Log(ctx, rec); err != nil {
				errs = append(errs, fmt.Errorf("monitor %T: %w", mon, err))
			}
		})
	}
	return errors.Join(errs...)
}

// Account adds a record to the ledger of a role.
func (l *Log) Account(role string, s ledger.Step) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.ledgers[role]
	if w == nil {
		if w, err = ledger.Open(l.cfg.Log.SaveDir, role); err != nil {
			return err
		}
		l.ledgers[role] = w
	}
	return w.Append(s)
}

// Progress shows what a role is doing.
func (l *Log) Progress(role, doing string, done, total int) {
	l.Activity.set(role, doing, done, total)
	if !l.began {
		return
	}
	who := ""
	if total == 0 {
		who = awaited(l.cfg, role)
	}
	l.waits.set(role, who)
	for i, m := range l.monitors {
		if p, ok := m.(monitor.Progressor); ok {
			l.tell(i, m, func() { p.Progress(role, doing, done, total) })
		}
	}
}

// Delivered sends the metrics of a version that has come into use.
func (l *Log) Delivered(ctx context.Context, version int64, m trinity.Metrics) error {
	return l.Record(ctx, trinity.Record{Step: version, Role: "synchronizer", Metrics: m})
}

// Checkpoint notes the newest checkpoint, and the model in it if there is one.
func (l *Log) Checkpoint(step int64, dir, model string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.summary.Checkpoint, l.trained = dir, step
	if Present(model) {
		l.summary.Model = model
	}
}

// Summary returns what the stage has done, which ended with an error or nil. It is false if the stage did not begin. The
// trainer's ledger gets to know that the trainer has taken its last batch.
func (l *Log) Summary(err error) (done StageSummary, began bool, _ error) {
	if !l.began {
		return done, false, err
	}
	if err == nil && l.ledgers[trinity.RoleTrainer] != nil {
		err = l.Account(trinity.RoleTrainer, ledger.Step{Ended: true})
	}
	done = l.summary
	if l.trained > 0 {
		done.Steps = l.trained
	}
	done.Name, done.Mode, done.Algorithm = l.cfg.Name, l.cfg.Mode, l.cfg.Algorithm.AlgorithmType
	if done.Skipped = err == nil && done.records == 0; done.Skipped || done.records > 0 {
		err = errors.Join(err, done.Recall(l.cfg.Monitor.CacheDir))
	}
	return done, true, err
}

// Close closes all files and monitors, and tells the monitors how the run ended.
func (l *Log) Close(end End) error {
	if !l.began {
		return nil
	}
	errs := []error{l.failures.Close()}
	if l.trace != nil {
		errs = append(errs, l.trace.Close())
	}
	for _, w := range l.ledgers {
		errs = append(errs, w.Close())
	}
	return errors.Join(append(errs, monitor.Close(l.monitors, monitor.Status(end)), l.said.Close())...)
}

// monitored returns what the monitors must know of a stage, and its configuration tells.
func monitored(cfg *config.Settled) (monitor.Run, error) {
	text, err := cfg.Config.YAML()
	return monitor.Run{
		Dir: cfg.Monitor.CacheDir, Parts: Parts(cfg), Project: cfg.Project, Group: cfg.Group, Name: cfg.Name,
		Trains: cfg.Trains, FromData: cfg.ReadsDataset, Config: text, Settings: cfg.Config.Settings(),
	}, err
}

// Explorer returns the explorer's side of the log.
func (l *Log) Explorer() explorer.Recorder { return &explorerSide{log: l} }

// Trainer returns the trainer's side of the log.
func (l *Log) Trainer() trainer.Recorder { return trainerSide{l} }

// explorerSide implements explorer.Recorder.
type explorerSide struct {
	log *Log
	evaluation
}

// Log implements explorer.Recorder.
func (e *explorerSide) Log(ctx context.Context, rec trinity.Record) error {
	rec.Role = trinity.RoleExplorer
	return e.log.Record(ctx, rec)
}

// Warn implements explorer.Recorder: it adds a line to the log of failed rollouts, and those of a stack.
func (e *explorerSide) Warn(err error) {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		rest := strings.TrimLeft(line, "\t") // a stack is indented
		lines[i] = line[:len(line)-len(rest)] + safetext.Printable(rest)
	}
	fmt.Fprintf(e.log.failures, "%s %s\n", time.Now().Format(time.RFC3339), strings.Join(lines, "\n"))
}

// Say implements explorer.Recorder.
func (e *explorerSide) Say(line string) { e.log.Say(line) }

// trainerSide implements trainer.Recorder.
type trainerSide struct{ log *Log }

// Log implements trainer.Recorder.
func (t trainerSide) Log(ctx context.Context, step int64, m trinity.Metrics) error {
	return t.log.Record(ctx, trinity.Record{Step: step, Role: trinity.RoleTrainer, Metrics: m})
}

// Took implements trainer.Recorder.
func (t trainerSide) Took(step int64, trained []trinity.ExperienceID, dropped map[string][]trinity.ExperienceID) error {
	s := ledger.Step{Step: step, Trained: trained, Dropped: map[string]ledger.IDs{}}
	for who, ids := range dropped {
		if len(ids) > 0 {
			s.Dropped[who] = ids
		}
	}
	if b := t.log.cfg.Buffer.TrainerInput.ExperienceBuffer; b != nil {
		s.Replay = b.ReplayBuffer.Enable
	}
	return t.log.Account(trinity.RoleTrainer, s)
}

// Progress implements trainer.Recorder.
func (t trainerSide) Progress(doing string, done, total int) {
	t.log.Progress(trinity.RoleTrainer, doing, done, total)
}

// Say implements trainer.Recorder.
func (t trainerSide) Say(line string) { t.log.Say(line) }
