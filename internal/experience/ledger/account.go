package ledger

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Account says what became of the experiences of a run, or of a stage.
type Account struct {
	Explored int            // by the explorers whose logs are here
	Put      int            // of them, into the buffer
	Dropped  map[string]int // experiences, by who dropped them
	Steps    int64          // the trainer's last
	Trained  map[int]int    // of Put, how many were trained on once, twice …
	Foreign  map[int]int    // the same of experiences that no explorer's log has: rows of a dataset, or logs elsewhere
	// Lost are experiences that a queue took in before one that the trainer has taken, and that nobody
	// trained on or dropped.
	Lost    IDs
	Waiting int  // put, and neither trained on, dropped nor lost
	Replay  bool // a replay buffer, which may have dropped waiting ones
	Ended   bool // the trainer has ended and takes no waiting experience
}

// Read returns the accounts of all runs and stages below a directory, by the path of their
// directory below it. It returns none if no run there has a ledger.
func Read(dir string) (map[string]*Account, error) {
	var paths []string
	dir, err := rundir.Walk(dir, func(path string, d fs.DirEntry) error {
		writes := d.Name() == trinity.RoleExplorer || d.Name() == trinity.RoleTrainer
		if writes && d.IsDir() && filepath.Base(filepath.Dir(path)) == folder {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// An explorer's record is there before the trainer's of the same experience, so the trainer's logs
	// come first: the run may go on meanwhile.
	slices.SortStableFunc(paths, func(a, b string) int { return strings.Compare(filepath.Base(b), filepath.Base(a)) })
	logs := map[string]map[string][]Step{} // by run, then by log
	for _, path := range paths {
		steps, err := read(path)
		if err != nil {
			return nil, err
		}
		of, err := filepath.Rel(dir, runOf(path))
		if err != nil {
			return nil, err
		}
		if logs[of] == nil {
			logs[of] = map[string][]Step{}
		}
		logs[of][path] = steps
	}
	accounts := map[string]*Account{}
	for name, of := range logs {
		accounts[name] = settle(of)
	}
	return accounts, nil
}

// runOf returns the directory of the run that a log belongs to: log/experiences/trainer lies in it,
// as does log/NAME/experiences/explorer of one of several explorers.
func runOf(path string) string {
	up := filepath.Dir(filepath.Dir(path))
	for at := up; filepath.Dir(at) != at; at = filepath.Dir(at) {
		if filepath.Base(at) == rundir.Logs {
			return filepath.Dir(at)
		}
	}
	return filepath.Dir(up)
}

// settle makes the account of the logs of one run.
func settle(logs map[string][]Step) *Account {
	a := &Account{Dropped: map[string]int{}, Trained: map[int]int{}, Foreign: map[int]int{}}
	uses, gone := map[trinity.ExperienceID]int{}, map[trinity.ExperienceID]bool{}
	for path, steps := range logs {
		for _, s := range steps {
			a.Explored += len(s.Explored)
			for who, ids := range s.Dropped {
				a.Dropped[who] += len(ids)
			}
			if filepath.Base(path) != trinity.RoleTrainer {
				continue
			}
			a.Steps, a.Replay, a.Ended = s.Step, s.Replay, s.Ended
			for _, id := range s.Trained {
				uses[id]++
			}
			for _, ids := range s.Dropped {
				for _, id := range ids {
					gone[id] = true
				}
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(logs)) {
		if filepath.Base(path) == trinity.RoleExplorer {
			a.follow(logs[path], uses, gone)
		}
	}
	for _, n := range uses {
		a.Foreign[n]++
	}
	return a
}

// follow counts what became of the experiences that one explorer put, in order, and removes them
// from uses.
func (a *Account) follow(steps []Step, uses map[trinity.ExperienceID]int, gone map[trinity.ExperienceID]bool) {
	var waiting IDs
	for _, s := range steps {
		put := s.Put
		if len(put) == 0 && len(s.Dropped) == 0 {
			put = s.Explored
		}
		a.Put += len(put)
		for _, id := range put {
			n := uses[id]
			if n == 0 && !gone[id] {
				waiting = append(waiting, id)
				continue
			}
			if !a.Replay { // a queue gives what comes first first
				a.Lost, waiting = append(a.Lost, waiting...), nil
			}
			if n > 0 {
				a.Trained[n]++
				delete(uses, id)
			}
		}
	}
	a.Waiting += len(waiting)
}
