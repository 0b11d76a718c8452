package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

// ids returns the experiences of coded texts.
func ids(t testing.TB, texts ...string) (ids IDs) {
	t.Helper()
	data, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &ids); err != nil {
		t.Fatal(err)
	}
	return ids
}

func id(step int64, task string, run, turn int) trinity.ExperienceID {
	return trinity.ExperienceID{Step: step, Task: task, Run: run, Turn: turn}
}

func TestIDsAreRunLengthCoded(t *testing.T) {
	for _, c := range []struct {
		ids  IDs
		want string
	}{
		{nil, `[]`},
		{IDs{id(3, "sums/17", 0, 0)}, `["3/sums/17/0/0"]`},
		{IDs{id(3, "a/b", 0, 0), id(3, "a/b", 1, 0), id(3, "a/b", 2, 0), id(3, "a/c", 0, 0)}, `["3/a/b/0..2/0","3/a/c/0/0"]`},
		{IDs{id(1, "t", 0, 0), id(1, "t", 0, 1), id(1, "t", 1, 0), id(1, "t", 1, 1), id(1, "t", 2, 0)}, `["1/t/0..1/0..1","1/t/2/0"]`},
		{IDs{id(1, "t", 1, 0), id(1, "t", 0, 0), id(2, "t", 1, 0)}, `["1/t/1/0","1/t/0/0","2/t/1/0"]`},
		{IDs{id(1, "t", 0, 0), id(1, "t", 0, 0)}, `["1/t/0/0","1/t/0/0"]`},
		{IDs{id(1, "", 4, 5)}, `["1//4/5"]`},
	} {
		got, err := json.Marshal(c.ids)
		if err != nil || string(got) != c.want {
			t.Errorf("%v: %s, %v, want %s", c.ids, got, err, c.want)
		}
		var back IDs
		if err := json.Unmarshal(got, &back); err != nil || !slices.Equal(back, c.ids) {
			t.Errorf("%s gives %v, %v", got, back, err)
		}
	}
}

func FuzzIDs(f *testing.F) {
	for _, text := range []string{`["3/a/b/0..2/0"]`, `["1//4/5"]`, `["1/t/0..9999999999/0"]`, `["1/t/0..9999999/0..9999999"]`,
		`["1/t/2..1/0"]`, `["1/t/-1/0"]`, `["x"]`, `[1]`, `["1/t/0..1/0..1","1/t/2/0"]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var ids, back IDs
		if json.Unmarshal(data, &ids) != nil {
			return
		}
		coded, err := json.Marshal(ids)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(coded, &back); err != nil || !slices.Equal(back, ids) {
			t.Errorf("%v gives %s and %v, %v", ids, coded, back, err)
		}
	})
}

// append adds records to the log of a role below a run's directory.
func write(t *testing.T, dir, role string, steps ...Step) {
	t.Helper()
	w, err := Open(filepath.Join(dir, "log"), role)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if err := w.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAccount(t *testing.T) {
	explored := []Step{
		{Step: 1, Explored: ids(t, "1/a/0..3/0")},
		{Step: 2, Explored: ids(t, "2/b/0..3/0"), Put: ids(t, "2/b/0..1/0"), Dropped: map[string]IDs{"reward_filter": ids(t, "2/b/2..3/0")}},
		{Step: 3, Explored: ids(t, "3/c/0..3/0")},
	}
	for _, c := range []struct {
		name              string
		explored, trained []Step
		want              Account
	}{
		{"in flight", explored, []Step{{Step: 1, Trained: ids(t, "1/a/0..3/0")}, {Step: 2, Trained: ids(t, "2/b/0/0")}},
			Account{Explored: 12, Put: 10, Steps: 2, Trained: map[int]int{1: 5}, Waiting: 5}},
		{"ended", explored[:2], []Step{{Step: 1, Trained: ids(t, "1/a/0..3/0")}, {Step: 2, Trained: ids(t, "2/b/0..1/0")}, {Ended: true}},
			Account{Explored: 8, Put: 6, Steps: 2, Trained: map[int]int{1: 6}, Ended: true}},
		{"lost and repeated", explored, []Step{{Step: 1, Trained: ids(t, "1/a/0/0", "1/a/2..3/0")},
			{Step: 2, Trained: ids(t, "2/b/0..1/0", "1/a/3/0")}, {Step: 3, Trained: ids(t, "3/c/0..3/0")}},
			Account{Explored: 12, Put: 10, Steps: 3, Trained: map[int]int{1: 8, 2: 1}, Lost: ids(t, "1/a/1/0")}},
		{"too old", explored, []Step{{Step: 1, Trained: ids(t, "2/b/0..1/0"),
			Dropped: map[string]IDs{"staleness_control": ids(t, "1/a/0..3/0")}}},
			Account{Explored: 12, Put: 10, Steps: 1, Trained: map[int]int{1: 2}, Waiting: 4,
				Dropped: map[string]int{"staleness_control": 4, "reward_filter": 2}}},
		{"a kill undid steps 2 and 3", explored, []Step{{Step: 1, Trained: ids(t, "1/a/0..1/0")}, {Step: 2, Trained: ids(t, "1/a/2..3/0")},
			{Step: 3, Trained: ids(t, "2/b/0..1/0")}, {Step: 2, Trained: ids(t, "1/a/2..3/0")}},
			Account{Explored: 12, Put: 10, Steps: 2, Trained: map[int]int{1: 4}, Waiting: 6}},
		{"a kill undid an explore step", append(explored[:3:3], Step{Step: 3, Explored: ids(t, "3/d/0..3/0")}), nil,
			Account{Explored: 12, Put: 10, Waiting: 10}},
		{"replay", explored[:1], []Step{{Step: 1, Trained: ids(t, "1/a/3/0"), Replay: true},
			{Step: 2, Trained: ids(t, "1/a/3/0"), Replay: true}},
			Account{Explored: 4, Put: 4, Steps: 2, Trained: map[int]int{2: 1}, Waiting: 3, Replay: true}},
		{"a dataset", nil, []Step{{Step: 1, Trained: ids(t, "1/rows.jsonl/7/0/0")}},
			Account{Steps: 1, Foreign: map[int]int{1: 1}}},
	} {
		dir := t.TempDir()
		write(t, dir, trinity.RoleExplorer, c.explored...)
		if c.trained != nil {
			write(t, dir, trinity.RoleTrainer, c.trained[:len(c.trained)-1]...)
			write(t, dir, trinity.RoleTrainer, c.trained[len(c.trained)-1:]...) // by another process
		}
		if c.want.Dropped == nil && len(c.explored) > 1 {
			c.want.Dropped = map[string]int{"reward_filter": 2}
		}
		accounts, err := Read(dir)
		if err != nil || len(accounts) != 1 {
			t.Fatalf("%s: %v, %v", c.name, accounts, err)
		}
		if got := *accounts["."]; fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

// Each of several explorers has a log directory of its own; a stage has a directory of its own.
func TestAccountsOfStagesAndSeveralExplorers(t *testing.T) {
	dir := t.TempDir()
	for i, path := range []string{"log/left", "log/right", "log", "warmup/log"} {
		w, err := Open(filepath.Join(dir, path), []string{trinity.RoleExplorer, trinity.RoleExplorer,
			trinity.RoleTrainer, trinity.RoleTrainer}[i])
		if err != nil {
			t.Fatal(err)
		}
		s := Step{Step: 1, Explored: ids(t, fmt.Sprintf("1/%d/0..1/0", i))}
		if i > 1 {
			s = Step{Step: 1, Trained: ids(t, "1/0/0..1/0", "1/1/0/0")}
		}
		if err := errors.Join(w.Append(s), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	accounts, err := Read(dir)
	if err != nil || len(accounts) != 2 {
		t.Fatal(accounts, err)
	}
	if a := accounts["."]; a.Explored != 4 || a.Trained[1] != 3 || a.Waiting != 1 || len(a.Foreign) != 0 {
		t.Errorf("%+v", *a)
	}
	if a := accounts["warmup"]; a.Explored != 0 || a.Foreign[1] != 3 {
		t.Errorf("%+v", *a)
	}
}

func TestMissing(t *testing.T) {
	a, b := trinity.ExperienceID{Run: 1}, trinity.ExperienceID{Run: 2}
	if got := Missing(IDs{a, b, a}, IDs{a}); !slices.Equal(got, IDs{b, a}) {
		t.Error(got)
	}
}
