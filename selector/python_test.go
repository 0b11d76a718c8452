package selector_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/selector"
	"github.com/trinity-go/trinity/trinitytest"
)

const ownSelector = `
import os
from trinity.buffer.selector import SELECTORS, BaseSelector

@SELECTORS.register_module("turns")
class Turns(BaseSelector):
    """Takes the rows in turn, the lowest rank first."""

    def __init__(self, data_source, config):
        super().__init__(data_source, config)
        ranks = data_source.dataset["rank"]
        self.order, self.drawn, self.rewards = sorted(range(len(ranks)), key=ranks.__getitem__), config.kwargs.get("first", 0), {}

    def get_indices(self, batch_size, return_extra_info=False):
        first, self.drawn = self.drawn, self.drawn + batch_size
        return [self.order[i % len(self.order)] for i in range(first, first + batch_size)]

    def feedback(self, indices, values):
        self.rewards |= dict(zip(map(str, indices), values))

    def state_dict(self):
        return {"drawn": self.drawn, "rewards": self.rewards}

    def load_state_dict(self, state):
        if type(state["drawn"]) is not int or state["drawn"] < 0:
            raise ValueError("no number of rows")
        self.drawn, self.rewards = state["drawn"], state["rewards"]

class Nested(Turns):
    def __init__(self, data_source, config):
        data_source.dataset = {"rank": data_source.dataset["is.rank"]}
        super().__init__(data_source, config)

class Few(Turns):
    def get_indices(self, batch_size):
        return [0]

class Outside(Turns):
    def get_indices(self, batch_size):
        return [99] * batch_size

class Ends(Turns):
    def get_indices(self, batch_size):
        if not os.path.exists("MARK"):
            open("MARK", "w").close()
            os._exit(3)
        return super().get_indices(batch_size)
`

// pythonHost offers processes that end with the test.
type pythonHost struct {
	trinity.Host
	t    *testing.T
	open map[string]io.Closer
}

func (h *pythonHost) Open(key string, open func(io.Writer) (io.Closer, error)) (io.Closer, error) {
	if h.open[key] == nil {
		c, err := open(io.Discard)
		if err != nil {
			return nil, err
		}
		h.t.Cleanup(func() { c.Close() })
		h.open[key] = c
	}
	return h.open[key], nil
}

func (h *pythonHost) Say(string) {}

func (*pythonHost) Wait(ctx context.Context, until func(context.Context) error) error {
	return until(ctx)
}

// ofPython returns what builds a selector of ownSelector.
func ofPython(t *testing.T, class string, kwargs map[string]any) func() selector.Selector {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	bridge.Allow(func(string) {})
	dir := t.TempDir()
	text := strings.ReplaceAll(ownSelector, "MARK", filepath.ToSlash(filepath.Join(dir, "mark")))
	if err := os.WriteFile(filepath.Join(dir, "own_selectors.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	host := &pythonHost{t: t, open: map[string]io.Closer{}}
	args := map[string]any{"seed": 7, "feature_keys": []any{"rank"}}
	for k, v := range kwargs {
		args[k] = v
	}
	section := bridge.DefaultPlugins()
	section.PluginDirs = []string{dir}
	name, all := section.Resolve(selector.Selectors.Catalog, dir, class, args)
	return func() selector.Selector {
		s, err := selector.Selectors.Build(name, all)
		if err == nil {
			err = s.(interface{ Open(trinity.Host) error }).Open(host)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func TestPythonConformance(t *testing.T) {
	for _, class := range []string{"turns", "own_selectors.Ends"} {
		t.Run(class, func(t *testing.T) {
			build := ofPython(t, class, nil)
			trinitytest.Selector(t, build)
			trinitytest.SelectorEpochs(t, build)
		})
	}
}

func TestPythonRefusals(t *testing.T) {
	for class, want := range map[string]string{
		"own_selectors.Few":     "selector own_selectors.Few returned 1 rows for a batch of 3",
		"own_selectors.Outside": "selector own_selectors.Outside returned row 99 of a dataset of 5 rows",
	} {
		s := ofPython(t, class, nil)()
		if err := s.Start(trinitytest.Rows{{"rank": 1}, {"rank": 2}, {"rank": 3}, {"rank": 4}, {"rank": 5}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(3); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	nested := ofPython(t, "own_selectors.Nested", map[string]any{"feature_keys": []any{"is.rank"}})()
	if err := nested.Start(trinitytest.Rows{{"is": map[string]any{"rank": 2}}, {"is": map[string]any{"rank": 1}}}); err != nil {
		t.Fatal(err)
	}
	if rows, err := nested.Next(1); err != nil || len(rows) != 1 || rows[0] != 1 {
		t.Error(rows, err)
	}
	s := ofPython(t, "turns", map[string]any{"feature_keys": []any{"rank", "level"}})()
	if err := s.Start(trinitytest.Rows{{"rank": 1, "answer": "?"}, {"rank": 2}}); err != nil {
		t.Fatal(err)
	}
	const want = "selector turns: no row has the column level, which feature_keys names: the rows have answer, rank"
	if _, err := s.Next(1); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	ofPython(t, "turns", nil) // code may run
	if got := selector.Selectors.Check("python", map[string]any{"class": "os.path.join"}); len(got) != 1 ||
		!strings.Contains(got[0].Message, "os.path.join is no class: a selector has the methods get_indices, state_dict and load_state_dict") {
		t.Error(got)
	}
}
