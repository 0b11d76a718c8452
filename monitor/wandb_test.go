package monitor

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// wandbServer keeps the rows of a run by their numbers, as W&B does.
type wandbServer struct {
	mu     sync.Mutex
	rows   map[int]string
	last   map[string]any // of the last request to the stream
	config string
}

func (s *wandbServer) handler(t *testing.T) http.Handler {
	s.rows, s.last = map[int]string{}, map[string]any{}
	h := http.NewServeMux()
	answer := func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}
	h.HandleFunc("/graphql", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		variables, _ := sent(t, r)["variables"].(map[string]any)
		if config, ok := variables["config"].(string); ok {
			s.config = config
		}
		if _, password, _ := r.BasicAuth(); password != strings.Repeat("a", 40) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer(w, fmt.Sprintf(`{"data": {"upsertBucket": {"inserted": true, "bucket": {"id": "x", "name": %q, "displayName": "n", "config": "{}",
			"project": {"id": "p", "name": "p", "entity": {"id": "e", "name": "e"}}, "historyLineCount": 0}},
			"createRunFiles": {"runID": "x", "uploadHeaders": [], "files": []}, "serverInfo": {"features": []}}}`, variables["name"]))
	})
	h.HandleFunc("/files/e/p/{run}/file_stream", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = sent(t, r)
		files, _ := s.last["files"].(map[string]any)
		history, _ := files["wandb-history.jsonl"].(map[string]any)
		lines, _ := history["content"].([]any)
		for i, line := range lines {
			s.rows[int(history["offset"].(float64))+i] = line.(string)
		}
		answer(w, `{}`)
	})
	h.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { answer(w, `{}`) })
	return h
}

// points returns the values of the rows.
func (s *wandbServer) points(t *testing.T) points {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := points{}
	for i := range len(s.rows) {
		var row map[string]float64
		if err := json.Unmarshal([]byte(s.rows[i]), &row); err != nil || row["_step"] != float64(i) {
			t.Errorf("row %d is %q: %v", i, s.rows[i], err)
		}
		for name, v := range row {
			if name != wandbStep && name[0] != '_' {
				got.add(name, int64(row[wandbStep]), v)
			}
		}
	}
	return got
}

func (s *wandbServer) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	code, _ := s.last["exitcode"].(float64)
	if s.last["complete"] != true {
		return ""
	}
	return map[float64]Status{0: Finished, 1: Failed, 130: Stopped}[code]
}

func newWandbServer(t *testing.T, _ string, f *faults) service {
	t.Setenv("WANDB_API_KEY", strings.Repeat("a", 40))
	s := &wandbServer{}
	return service{
		args:   map[string]any{"base_url": f.serve(t, s.handler(t))},
		points: func() points { return s.points(t) }, status: s.status,
	}
}

// newWandb reads the offline run that the sink writes.
func newWandb(t *testing.T, dir string, _ *faults) service {
	read := func() (got points, status Status) {
		got = points{}
		each(t, filepath.Join(dir, "wandb", "offline-run-*", "run-*.wandb"), func(m fieldsOf) {
			if m.has(wandbExit) {
				status = map[uint64]Status{0: Finished, 1: Failed, 130: Stopped}[m.sub(wandbExit).number(1)]
			}
			row := map[string]string{}
			for _, text := range m.sub(wandbHistory).all(1) {
				item := parseFields(t, text)
				row[string(item.bytes[1])] = string(item.bytes[16])
			}
			step, _ := strconv.ParseInt(row[wandbStep], 10, 64)
			for name, text := range row {
				v, err := strconv.ParseFloat(text, 64)
				if err != nil {
					t.Error(err)
				}
				if name != wandbStep && name[0] != '_' {
					got.add(name, step, v)
				}
			}
		})
		return got, status
	}
	return service{
		args: map[string]any{}, local: true,
		points: func() points { got, _ := read(); return got }, status: func() Status { _, s := read(); return s },
	}
}

// A run that began without a key is uploaded as a whole, or a server would lack its first rows.
func TestWandbBeganOffline(t *testing.T) {
	dir := t.TempDir()
	monitors, _ := followed(t, dir, "wandb", nil)
	logSteps(t, monitors, 1, 2)
	end(t, monitors, Stopped)
	s := newWandbServer(t, dir, &faults{})
	monitors, said := followed(t, dir, "wandb", s.args)
	logSteps(t, monitors, 3, 4)
	end(t, monitors, Finished)
	if !strings.Contains(said(), "the run began offline: wandb sync "+filepath.Join(dir, "wandb", "offline-run-")) || len(s.points()) > 0 {
		t.Errorf("said %q", said())
	}
	t.Setenv("WANDB_MODE", "offline")
	if n, err := Sync(t.Context(), dir, "wandb", s.args, nil); err != nil || n != 6 {
		t.Errorf("sync sent %d records, %v", n, err)
	}
	compare(t, dir, newWandb(t, dir, nil))
}

// Without the server, all rows are in the offline run, and trinity sync sends them later.
func TestWandbWritesTheFileWithoutTheServer(t *testing.T) {
	dir := t.TempDir()
	f := &faults{next: slices.Repeat([]string{"loses the request"}, 1000)}
	s := newWandbServer(t, dir, f)
	args := maps.Clone(s.args)
	args["close_timeout"] = 0
	monitors, said := followed(t, dir, "wandb", args)
	logSteps(t, monitors, 1, 1)
	for f.left() > 990 { // the sink tries again
		time.Sleep(time.Millisecond)
	}
	logSteps(t, monitors, 2, maxRecords)
	end(t, monitors, Finished)
	if !strings.Contains(said(), "trinity sync") {
		t.Errorf("said %q", said())
	}
	compare(t, dir, newWandb(t, dir, nil))
	axes := map[string]int{}
	each(t, filepath.Join(dir, "wandb", "offline-run-*", "run-*.wandb"), func(m fieldsOf) {
		if m.has(wandbMetric) {
			axes[string(m.sub(wandbMetric).bytes[1])]++
		}
	})
	if axes["actor/final_loss"] != 1 || axes["rollout/reward/mean"] != 1 {
		t.Errorf("the file has the axes %v", axes)
	}
	f.mu.Lock()
	f.next = nil
	f.mu.Unlock()
	if n, err := Sync(t.Context(), dir, "wandb", s.args, nil); err != nil || n != 3*maxRecords {
		t.Errorf("sync sent %d records, %v", n, err)
	}
	compare(t, dir, s)
	compare(t, dir, newWandb(t, dir, nil))
	if s.status() != Finished {
		t.Errorf("the run is %q there", s.status())
	}
}

func TestWandbSaysWhatTheServerSays(t *testing.T) {
	t.Setenv("WANDB_API_KEY", strings.Repeat("b", 40))
	dir := t.TempDir()
	for want, h := range map[string]http.HandlerFunc{
		"401 Unauthorized": (&wandbServer{}).handler(t).ServeHTTP,
		"no such team": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"errors": [{"message": "no such team"}]}`)
		},
		"names no project": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) },
	} {
		monitors, said := followed(t, dir, "wandb", map[string]any{"base_url": (&faults{}).serve(t, h)})
		for _, m := range monitors {
			logAll(t, m, rec("trainer", 1, trinity.Metrics{"actor/x": 1}))
		}
		end(t, monitors, "")
		if !strings.Contains(said(), want) || strings.Contains(said(), "bbb") {
			t.Errorf("want %q, said %q", want, said())
		}
	}
}
