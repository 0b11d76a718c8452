package studio

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/trace"
)

// comparedTask is a task that several runs have answered.
type comparedTask struct {
	Task string          `json:"task"`
	Runs [][]taskAnswers `json:"runs"` // in the order of the request; empty for a run that has no answer
}

// taskAnswers is the answers of a run to a task in a train step.
type taskAnswers struct {
	Step        int64   `json:"step"`
	ExploreStep int64   `json:"explore_step"`
	N           int     `json:"n"`
	Invalid     int     `json:"invalid"` // answers without a valid reward
	Mean        *Number `json:"mean"`    // of the valid rewards; null if there is none
}

// maxTasks is how many tasks a reply has.
const maxTasks = 5000

// tasks answers with the tasks that at least two of the runs have answered, and with their rewards in
// each train step that the traces have.
func (s *traces) tasks(r *http.Request) (any, error) {
	ids := r.URL.Query()["run"]
	if len(ids) < minCompared || len(ids) > maxCompared {
		return nil, mistake{fmt.Errorf("run is given %d times: name %d to %d runs", len(ids), minCompared, maxCompared)}
	}
	all, damaged := map[string]*comparedTask{}, []string{}
	for i, id := range ids {
		if err := r.Context().Err(); err != nil { // who asked has gone
			return nil, err
		}
		f, err := s.runs.open(id)
		if err != nil {
			return nil, err
		}
		dir, err := f.traces()
		if err != nil {
			return nil, err
		}
		of, lines := s.history(dir)
		damaged = append(damaged, lines...)
		for task, history := range of {
			if all[task] == nil {
				all[task] = &comparedTask{task, slices.Repeat([][]taskAnswers{{}}, len(ids))}
			}
			all[task].Runs[i] = history
		}
	}
	var shared []*comparedTask
	for _, t := range all {
		if t.answered() > 1 {
			shared = append(shared, t)
		}
	}
	slices.SortFunc(shared, func(a, b *comparedTask) int {
		return cmp.Or(cmp.Compare(b.answered(), a.answered()), strings.Compare(a.Task, b.Task))
	})
	left := max(0, len(shared)-maxTasks)
	return map[string]any{"tasks": list(shared[:len(shared)-left]), "left_off": left, "damaged": damaged}, nil
}

// answered returns how many of the runs have answers.
func (t *comparedTask) answered() (n int) {
	for _, history := range t.Runs {
		n += min(1, len(history))
	}
	return n
}

// scored is the rewards of a train step by task, as long as its file is the same.
type scored struct {
	info os.FileInfo
	of   map[string]taskAnswers
}

// history returns the history of each task of a trace in the order of steps, and lines about what cannot be
// read. It reads the steps that are new.
func (s *traces) history(dir string) (history map[string][]taskAnswers, damaged []string) {
	history = map[string][]taskAnswers{}
	_, err := s.scores.update(dir, func(before map[int64]scored) (map[int64]scored, error) {
		now := map[int64]scored{}
		steps, err := trace.Steps(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, step := range steps {
			path := trace.StepFile(dir, step)
			info, err := os.Lstat(path)
			if err == nil && !info.Mode().IsRegular() {
				err = fmt.Errorf("%s is no regular file", path)
			}
			one, ok := before[step]
			if err == nil && (!ok || !os.SameFile(one.info, info) || !one.info.ModTime().Equal(info.ModTime())) {
				one.info = info
				one.of, err = scoresOf(dir, step)
			}
			if err != nil {
				if !errors.Is(err, fs.ErrNotExist) { // else the trace has thinned out
					damaged = append(damaged, err.Error())
				}
				continue
			}
			now[step] = one
			for task, a := range one.of {
				history[task] = append(history[task], a)
			}
		}
		return now, nil
	})
	if err != nil {
		damaged = append(damaged, err.Error())
	}
	return history, damaged
}

// scoresOf sums up the rewards of a train step by task. Of a task that several explorer steps have
// asked, the newest one counts.
func scoresOf(dir string, step int64) (map[string]taskAnswers, error) {
	rows, err := trace.ReadScores(dir, step)
	if err != nil {
		return nil, err
	}
	sums, of := map[string]float64{}, map[string]taskAnswers{}
	for _, r := range rows {
		a, ok := of[r.Task]
		if ok && r.ExploreStep < a.ExploreStep {
			continue
		}
		if !ok || r.ExploreStep > a.ExploreStep {
			a, sums[r.Task] = taskAnswers{Step: step, ExploreStep: r.ExploreStep}, 0
		}
		a.N++
		if r.Reward == nil {
			a.Invalid++
		} else {
			sums[r.Task] += *r.Reward
		}
		of[r.Task] = a
	}
	for task, a := range of {
		if valid := a.N - a.Invalid; valid > 0 {
			mean := Number(sums[task] / float64(valid))
			a.Mean = &mean
			of[task] = a
		}
	}
	return of, nil
}
