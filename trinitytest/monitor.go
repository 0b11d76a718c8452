package trinitytest

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
)

// Monitor checks the contract of monitors. open returns a monitor that is ready to log and may
// write to dir. The suite opens a directory again, like a resumed run, and twice at once, like an
// explorer and a trainer in two processes.
func Monitor(t *testing.T, open func(dir string) (trinity.Monitor, error)) {
	ready := func(t *testing.T, dir string) trinity.Monitor {
		t.Helper()
		m, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	t.Run("records", func(t *testing.T) {
		dir := t.TempDir()
		for range 2 {
			m := ready(t, dir)
			for _, r := range records() {
				logOne(t, m, r)
			}
			closeAll(t, m)
			readable(t, dir)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		dir := t.TempDir()
		closeAll(t, ready(t, dir))
		readable(t, dir)
	})
	t.Run("many callers", func(t *testing.T) {
		dir := t.TempDir()
		first, second := ready(t, dir), ready(t, dir)
		var wg sync.WaitGroup
		for _, m := range []trinity.Monitor{first, first, second} {
			wg.Go(func() {
				for _, r := range records() {
					logOne(t, m, r)
				}
			})
		}
		wg.Wait()
		closeAll(t, first, second)
		readable(t, dir)
	})
	t.Run("a context that has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m := ready(t, t.TempDir())
		_ = m.Log(ctx, records()[0]) // it may return an error
		closeAll(t, m)
	})
}

// logOne logs a record and checks that the monitor does not change its metrics, which others read
// too.
func logOne(t *testing.T, m trinity.Monitor, r trinity.Record) {
	before := maps.Clone(r.Metrics)
	if err := m.Log(t.Context(), r); err != nil {
		t.Errorf("%s %d: %v", r.Role, r.Step, err)
	}
	if !maps.EqualFunc(before, r.Metrics, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
		t.Errorf("%s %d: the metrics %.200v became %.200v", r.Role, r.Step, before, r.Metrics)
	}
}

func closeAll(t *testing.T, monitors ...trinity.Monitor) {
	t.Helper()
	for _, m := range monitors {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// readable reads every file below dir, and checks that each line of a JSON Lines file is JSON.
func readable(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for line := range bytes.Lines(data) {
			if filepath.Ext(path) == ".jsonl" && (!json.Valid(line) || line[len(line)-1] != '\n') {
				t.Errorf("%s has the line %.200q", path, line)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
