package monitor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// tracedService stands in for the service of a sink with spans or tables.
type tracedService struct {
	args  map[string]any
	got   func() int // what it has of the trace
	files bool
}

// tracedServices makes the service of each sink that gets spans or tables.
var tracedServices = map[string]func(t *testing.T, dir string, f *faults) tracedService{
	"mlflow": func(t *testing.T, _ string, f *faults) tracedService {
		files, made := map[string]int{}, false
		return counting(t, f, "uri", func(r *http.Request) string {
			const info = `{"info": {"run_id": "r", "artifact_uri": "mlflow-artifacts:/7/r/artifacts"}}`
			switch what := path.Base(r.URL.Path); {
			case r.Method == http.MethodPut:
				var table struct{ Data [][]any }
				if err := json.NewDecoder(r.Body).Decode(&table); err != nil {
					t.Error(err)
				}
				files[what] = len(table.Data) // it replaces the file
			case what == "create" && strings.Contains(r.URL.Path, "runs"):
				made = true
				return `{"run": ` + info + `}`
			case what == "search" && made:
				return `{"runs": [` + info + `]}`
			case what == "get-by-name":
				return `{"experiment": {"experiment_id": "7"}}`
			}
			return `{}`
		}, files)
	},
	"trackio server": func(t *testing.T, _ string, f *faults) tracedService {
		t.Setenv("TRACKIO_WRITE_TOKEN", "secret")
		rows := map[string]int{}
		return counting(t, f, "server_url", func(r *http.Request) string {
			var in struct {
				Logs []struct {
					LogID   string `json:"log_id"`
					Metrics map[string]json.RawMessage
				}
			}
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
			for _, row := range in.Logs {
				var traces []any
				if text := row.Metrics[trackioKey]; text != nil && json.Unmarshal(text, &traces) == nil {
					rows[row.LogID] = len(traces)
				}
			}
			return `{"data": null}`
		}, rows)
	},
	"trackio": func(t *testing.T, _ string, _ *faults) tracedService {
		dir := t.TempDir()
		return tracedService{map[string]any{"dir": dir}, func() (n int) {
			for _, of := range rolloutsIn(t, dir) {
				n += of
			}
			return n
		}, true}
	},
	"wandb": func(t *testing.T, dir string, _ *faults) tracedService {
		t.Setenv("WANDB_API_KEY", "")
		return tracedService{map[string]any{}, func() (n int) {
			tables, err := filepath.Glob(filepath.Join(dir, "wandb", "offline-run-*", "files", "media", "table", "*.json"))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range tables {
				var table struct{ Data [][]any }
				if text, err := os.ReadFile(path); err != nil || json.Unmarshal(text, &table) != nil {
					t.Errorf("%s: %v", path, err)
				}
				n += len(table.Data)
			}
			return n
		}, true}
	},
	"otel": func(t *testing.T, _ string, f *faults) tracedService {
		s := newOtel(t, t.TempDir(), f)
		return tracedService{s.args, func() int { return s.points()["spans"] }, false}
	},
}

// counting returns a service whose address is an argument, and that has a number of things by their names.
func counting(t *testing.T, f *faults, key string, answer func(*http.Request) string, has map[string]int) tracedService {
	var mu sync.Mutex
	url := f.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprint(w, answer(r))
	}))
	return tracedService{map[string]any{key: url}, func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, of := range has {
			n += of
		}
		return n
	}, false}
}

// Each sink with spans or tables keeps the contract of those.
func TestConformanceOfTraces(t *testing.T) {
	for _, name := range Monitors.Names() {
		takes := takesOf(name)
		tested := 0
		for service := range tracedServices {
			if sinkOf(service) == name {
				tested++
			}
		}
		if (takes.Spans || takes.Tables) != (tested > 0) {
			t.Errorf("monitor %s takes %+v, and %d tests have its service", name, takes, tested)
		}
	}
	for name, begin := range tracedServices {
		t.Run(name, func(t *testing.T) {
			trinitytest.Trace(t, begin(t, "", &faults{}).files, func(t *testing.T, next []string) trinitytest.Traced {
				f, dir := &faults{next: next}, filepath.Join(t.TempDir(), "monitor")
				return traced(t, dir, sinkOf(name), begin(t, dir, f), f)
			})
		})
	}
}

// takesOf returns what a monitor takes by default beside records.
func takesOf(name string) Parts {
	if s, ok := Monitors.Default(name).(Sink); ok {
		return s.Takes()
	}
	return Parts{}
}

// traced returns a run with a sink, for the suite.
func traced(t *testing.T, dir, name string, s tracedService, f *faults) trinitytest.Traced {
	r := trinitytest.Traced{
		Follow: func(hurry bool) string {
			args := maps.Clone(s.args)
			if hurry {
				args["close_timeout"] = 0
			}
			monitors, said := followed(t, dir, name, args)
			end(t, monitors, "")
			return said()
		},
		Sync: func() error { _, err := Sync(t.Context(), dir, name, s.args, nil); return err },
		Forget: func() {
			if err := os.Remove(filepath.Join(dir, "sent_"+name+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		},
		Got: s.got,
		Heal: func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.next = nil
		},
	}
	if takesOf(name).Spans {
		r.Each, r.Keep = 4, func(step int64) { spans(t, dir, int(step)) }
	} else {
		r.Each, r.Keep = 2, func(step int64) { train(t, dir, 2, step) }
	}
	return r
}
