// Package monitor holds the receivers of metrics: the console, a JSON Lines file, TensorBoard, and
// the services of others. A run may use any number of them.
package monitor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// Monitors is the registry of monitors.
var Monitors = registry.New[trinity.Monitor]("monitor", "where metrics go (monitor.monitor_type)")

func init() {
	Monitors.Auto = []string{consoleName, jsonlName, "tensorboard"}
	Monitors.Always = []string{jsonlName} // report, studio, top, log, compare and the sinks read its file
}

// Run describes the monitored run.
type Run struct {
	ID         string   // the same after a resume; Open sets it
	Dir        string   // of the run's monitor files
	Parts      []string // of the run that this process does: "explorer", "trainer"
	Project    string
	Group      string
	Name       string
	FromStep   int64 // the training step from which the run resumes; 0 for a new run
	TotalSteps int64 // training steps; 0 if unknown

	Trains   bool // this process trains, perhaps beside an explorer
	FromData bool // the trainer reads a dataset and waits for no explorer
	// Shows adds the console to the named monitors, and Quiet removes it from them.
	Shows, Quiet bool
	Config       string         // effective configuration (YAML), without secrets
	Settings     map[string]any // what differs from the defaults, by dotted key, without secrets
	Began        time.Time      // Open sets it; a resumed run began when it was new
	Say          func(string)   // prints a line for people; may be nil
}

// Progressor is a Monitor that shows what a role is doing within a step: done of total, or 0 of 0 if
// it waits.
type Progressor interface {
	Progress(role, doing string, done, total int)
}

// Opener is a Monitor that must know the run before it can log.
type Opener interface{ Open(Run) error }

// Open builds and opens the named monitors. For one name, args are its arguments. For several
// names, args may hold a map of arguments under each name.
//
// Open adds the monitors that every run has. The sinks come last, because they read a record from the
// file of the jsonl monitor.
func Open(names []string, args map[string]any, run Run) ([]trinity.Monitor, error) {
	names, args = withConsole(names, args, run)
	names, args = complete(names, args)
	if err := identify(&run); err != nil {
		return nil, err
	}
	if len(names) > 1 {
		for key := range args {
			if !slices.Contains(names, key) {
				return nil, fmt.Errorf("monitor_args.%s: with several monitors, monitor_args has one section for each: %s",
					key, strings.Join(names, ", "))
			}
		}
	}
	var opened []trinity.Monitor
	for _, name := range names {
		m, err := open(name, names, args, run)
		if err != nil {
			return nil, errors.Join(err, Close(opened, ""))
		}
		opened = append(opened, m)
	}
	return opened, nil
}

// Close tells sinks how the run ended, "" if it has not, and closes all monitors. The sinks close at
// once, because each may wait for its service.
func Close(monitors []trinity.Monitor, status Status) error {
	errs := make([]error, len(monitors))
	var sinks sync.WaitGroup
	for i, m := range monitors {
		if s, ok := m.(Sink); ok {
			s.follower().status = status
			sinks.Go(func() { errs[i] = m.Close() })
		} else {
			errs[i] = m.Close()
		}
	}
	sinks.Wait()
	return errors.Join(errs...)
}

// withConsole adds the console or takes it away, as the run asks. The arguments of a single monitor
// become a section, and a single section becomes arguments.
func withConsole(names []string, args map[string]any, run Run) ([]string, map[string]any) {
	has := slices.Contains(names, consoleName)
	if add, remove := run.Shows && !run.Quiet && !has, run.Quiet && has; !add && !remove {
		return names, args
	}
	if !has {
		return with(consoleName, names, args)
	}
	if len(names) == 1 {
		return nil, nil
	}
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == consoleName })
	if len(names) == 1 {
		args, _ = args[names[0]].(map[string]any)
	}
	return names, args
}

// with puts a monitor before the named ones. The arguments of a single monitor become a section.
func with(first string, names []string, args map[string]any) ([]string, map[string]any) {
	return append([]string{first}, names...), sections(names, args)
}

// sections returns the arguments of the named monitors as a section for each name, also for a single one.
func sections(names []string, args map[string]any) map[string]any {
	if len(names) == 1 && len(args) > 0 {
		return map[string]any{names[0]: args}
	}
	return args
}

// complete adds the monitors that every run has behind the named ones, and puts the sinks last.
func complete(names []string, args map[string]any) ([]string, map[string]any) {
	var sinks, others []string
	for _, name := range names {
		if _, ok := Monitors.Default(name).(Sink); ok {
			sinks = append(sinks, name)
		} else {
			others = append(others, name)
		}
	}
	for _, name := range Monitors.Always {
		if !slices.Contains(names, name) {
			others, args = append(others, name), sections(names, args)
		}
	}
	return slices.Concat(others, sinks), args
}

func open(name string, names []string, args map[string]any, run Run) (trinity.Monitor, error) {
	if len(names) > 1 {
		section, ok := args[name].(map[string]any)
		if args[name] != nil && !ok {
			return nil, fmt.Errorf("monitor_args.%s: want a section of arguments, got %v", name, args[name])
		}
		args = section
	}
	m, err := Monitors.Build(name, args)
	if err != nil {
		return nil, err
	}
	if s, ok := m.(Sink); ok {
		s.follower().start(name, s, run)
	}
	if o, ok := m.(Opener); ok {
		if err := o.Open(run); err != nil {
			return nil, fmt.Errorf("monitor %s: %w", name, err)
		}
	}
	return m, nil
}

// startedRoles is the set of roles that have logged since a monitor was opened.
type startedRoles map[string]bool

// first reports whether r is the first record of a role's loop. It then replaces the role's records
// of the same and later steps, which a run logged that was killed after its last checkpoint. Each
// role has its own step, because an explorer may be ahead of the checkpoint by the contents of the
// buffer. A record of an evaluation alone is never the first, because the step that it evaluates may
// be an earlier one.
func (b *startedRoles) first(r trinity.Record) bool {
	if isEvaluation(r.Metrics) || (*b)[r.Role] {
		return false
	}
	if *b == nil {
		*b = startedRoles{}
	}
	(*b)[r.Role] = true
	return true
}

// isEvaluation reports whether metrics are those of an evaluation alone, without a step's.
func isEvaluation(m trinity.Metrics) bool {
	for name := range m {
		if family, _, _ := strings.Cut(name, "/"); !slices.Contains([]string{"eval", "bench", "time"}, family) {
			return false
		}
	}
	return len(m) > 0
}
