package ledger

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
)

// IDs are experiences in order. JSON has them run-length coded: one text for consecutive rollouts
// of a task, with their runs and, in each, their turns.
//
//	["3/sums/17/0..7/0", "3/sums/4/0/0..2"]
type IDs []trinity.ExperienceID

// most bounds the experiences of one coded list: a damaged range must not fill the memory.
const most = 1 << 24

// span is a rectangle of runs and turns of a task; both ends count.
type span struct {
	step         int64
	task         string
	run, toRun   int
	turn, toTurn int
}

// MarshalJSON implements [json.Marshaler].
func (ids IDs) MarshalJSON() ([]byte, error) {
	texts := []string{}
	for _, s := range ids.spans() {
		texts = append(texts, fmt.Sprintf("%d/%s/%s/%s", s.step, s.task, between(s.run, s.toRun), between(s.turn, s.toTurn)))
	}
	return json.Marshal(texts)
}

// spans joins the turns of a run, and then runs with the same turns.
func (ids IDs) spans() []span {
	var runs, all []span
	for _, id := range ids {
		s := span{id.Step, id.Task, id.Run, id.Run, id.Turn, id.Turn}
		if last := len(runs) - 1; last >= 0 && runs[last].step == s.step && runs[last].task == s.task &&
			runs[last].run == s.run && runs[last].toTurn+1 == s.turn {
			runs[last].toTurn++
			continue
		}
		runs = append(runs, s)
	}
	for _, s := range runs {
		if last := len(all) - 1; last >= 0 && all[last].step == s.step && all[last].task == s.task &&
			all[last].toRun+1 == s.run && all[last].turn == s.turn && all[last].toTurn == s.toTurn {
			all[last].toRun++
			continue
		}
		all = append(all, s)
	}
	return all
}

// UnmarshalJSON implements [json.Unmarshaler].
func (ids *IDs) UnmarshalJSON(data []byte) error {
	var texts []string
	if err := json.Unmarshal(data, &texts); err != nil {
		return err
	}
	*ids = nil
	for _, text := range texts {
		s, err := parse(text)
		if err != nil {
			return err
		}
		if n := len(*ids); s.toRun-s.run >= most-n || s.toTurn-s.turn >= most-n || (s.toRun-s.run+1)*(s.toTurn-s.turn+1) > most-n {
			return fmt.Errorf("%q: more than %d experiences", text, most)
		}
		for run := s.run; run <= s.toRun; run++ {
			for turn := s.turn; turn <= s.toTurn; turn++ {
				*ids = append(*ids, trinity.ExperienceID{Step: s.step, Task: s.task, Run: run, Turn: turn})
			}
		}
	}
	return nil
}

// parse reads a coded span. A task may hold slashes, its neighbours may not.
func parse(text string) (s span, err error) {
	step, rest, ok := strings.Cut(text, "/")
	rest, turns, ok2 := cutLast(rest)
	task, runs, ok3 := cutLast(rest)
	if !ok || !ok2 || !ok3 {
		return s, fmt.Errorf("%q: want step/task/runs/turns", text)
	}
	s.task = task
	if s.step, err = strconv.ParseInt(step, 10, 64); err == nil {
		s.run, s.toRun, err = ends(runs)
	}
	if err == nil {
		s.turn, s.toTurn, err = ends(turns)
	}
	if err != nil {
		err = fmt.Errorf("%q: %w", text, err)
	}
	return s, err
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

func between(from, to int) string {
	if from == to {
		return strconv.Itoa(from)
	}
	return fmt.Sprintf("%d..%d", from, to)
}

func ends(text string) (from, to int, err error) {
	first, last, ranged := strings.Cut(text, "..")
	if from, err = strconv.Atoi(first); err != nil || !ranged {
		return from, from, err
	}
	if to, err = strconv.Atoi(last); err == nil && (from < 0 || to <= from) {
		err = fmt.Errorf("%q is no range", text)
	}
	return from, to, err
}
