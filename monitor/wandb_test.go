package monitor

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
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

	summary  map[string]json.RawMessage
	files    map[string]string
	uploaded []string // of which the stream has been told
	beats    int
}

func (s *wandbServer) handler(t *testing.T) http.Handler {
	s.rows, s.last, s.files = map[int]string{}, map[string]any{}, map[string]string{}
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
		var files []string
		if wanted, ok := variables["files"].([]any); ok {
			for _, name := range wanted {
				files = append(files, fmt.Sprintf(`{"name": %q, "uploadUrl": "http://%s/upload/%[1]s"}`, name, r.Host))
			}
			if run := variables["run"].(string); len(run) != 12 || variables["entity"] != "e" || variables["project"] != "p" {
				t.Errorf("files of %v", variables)
			}
		}
		answer(w, fmt.Sprintf(`{"data": {"upsertBucket": {"inserted": true, "bucket": {"id": "x", "name": %q, "displayName": "n", "config": "{}",
			"project": {"id": "p", "name": "p", "entity": {"id": "e", "name": "e"}}, "historyLineCount": 0}},
			"createRunFiles": {"runID": "x", "uploadHeaders": ["X-Upload:yes"], "files": [%s]}, "serverInfo": {"features": []}}}`,
			fmt.Sprint(variables["name"]), strings.Join(files, ",")))
	})
	h.HandleFunc("/files/e/p/{run}/file_stream", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = sent(t, r)
		if len(s.last) == 0 {
			s.beats++
		}
		files, _ := s.last["files"].(map[string]any)
		history, _ := files["wandb-history.jsonl"].(map[string]any)
		lines, _ := history["content"].([]any)
		if summary, ok := files["wandb-summary.json"].(map[string]any); ok {
			s.summary = nil
			if err := json.Unmarshal([]byte(summary["content"].([]any)[0].(string)), &s.summary); err != nil {
				t.Error(err)
			}
		}
		uploaded, _ := s.last["uploaded"].([]any)
		for _, name := range uploaded {
			s.uploaded = append(s.uploaded, name.(string))
		}
		for i, line := range lines {
			s.rows[int(history["offset"].(float64))+i] = line.(string)
		}
		answer(w, `{}`)
	})
	h.HandleFunc("PUT /upload/", func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("X-Upload") != "yes" || r.Header.Get("Authorization") != "" {
			t.Errorf("%v, %v", r.Header, err)
		}
		s.files[strings.TrimPrefix(r.URL.Path, "/upload/")] = string(body)
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
		row := wandbNumbers(t, s.rows[i])
		if row["_step"] != float64(i) {
			t.Errorf("row %d is %q", i, s.rows[i])
		}
		for name, v := range row {
			if name != wandbStep && name[0] != '_' {
				got.add(name, int64(row[wandbStep]), v)
			}
		}
	}
	return got
}

// wandbNumbers returns the numbers of a row.
func wandbNumbers(t *testing.T, line string) map[string]float64 {
	var row map[string]any
	if err := json.Unmarshal([]byte(line), &row); err != nil {
		t.Errorf("%q: %v", line, err)
	}
	numbers := map[string]float64{}
	for name, v := range row {
		if v, ok := v.(float64); ok {
			numbers[name] = v
		}
	}
	return numbers
}

// tables checks the tables of the run: each is named by a row and has been uploaded. It returns what the
// files hold, by train step.
func (s *wandbServer) tables(t *testing.T) map[int64]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := map[int64]string{}
	var newest string
	for i := range len(s.rows) {
		var row struct {
			Step     int64 `json:"step"`
			Rollouts *struct {
				Type   string `json:"_type"`
				Path   string `json:"path"`
				SHA256 string `json:"sha256"`
				Size   int    `json:"size"`
				Rows   int    `json:"nrows"`
				Cols   int    `json:"ncols"`
			} `json:"rollouts"`
		}
		if err := json.Unmarshal([]byte(s.rows[i]), &row); err != nil {
			t.Errorf("%q: %v", s.rows[i], err)
		}
		r := row.Rollouts
		if r == nil {
			continue
		}
		text, known := s.files[r.Path]
		if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text))); !known || r.SHA256 != sum || r.Size != len(text) || r.Type != "table-file" {
			t.Errorf("%+v has the file %.80q", r, text)
		}
		var table grid
		if err := json.Unmarshal([]byte(text), &table); err != nil || len(table.Columns) != r.Cols || len(table.Data) != r.Rows {
			t.Errorf("%+v is %.80q: %v", r, text, err)
		}
		if _, twice := got[row.Step]; twice {
			t.Errorf("two tables of step %d", row.Step)
		}
		got[row.Step], newest = text, r.Path
	}
	if !strings.Contains(string(s.summary[wandbTable]), newest) || len(s.summary) < 2 {
		t.Errorf("the summary is %s, want %s in it", s.summary, newest)
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
				if name == wandbTable {
					continue
				}
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

// The server and the file have the table of each step once, after a lost answer and a kill too, and a
// resumed run keeps the newest values.
func TestWandbTablesComeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "monitor")
	f := &faults{next: []string{"", "", "503", "", "loses the answer", "", "", "loses the answer", "500"}}
	s := &wandbServer{}
	t.Setenv("WANDB_API_KEY", strings.Repeat("a", 40))
	args := map[string]any{"base_url": f.serve(t, s.handler(t))}
	train(t, dir, 40, 1, 2)
	monitors, said := followed(t, dir, "wandb", args)
	logSteps(t, monitors, 1, 3)
	end(t, monitors, "")
	lost, err := openTail(dir, "wandb")
	if err != nil {
		t.Fatal(err)
	}
	lost.at.Tables, lost.at.TableCount = 1, 1 // a kill before the last position was kept
	if err := lost.keep(lost.at); err != nil {
		t.Fatal(err)
	}
	train(t, dir, 40, 3)
	monitors, again := followed(t, dir, "wandb", args)
	for _, m := range monitors {
		logAll(t, m, trainRecord(4, 0.5))
	}
	end(t, monitors, Finished)
	service := service{points: func() points { return s.points(t) }}
	compare(t, dir, service)
	compare(t, dir, newWandb(t, dir, nil))
	tables := s.tables(t)
	if len(tables) != 3 || len(s.rows) != 13 || strings.Contains(said()+again(), "trinity sync") {
		t.Errorf("%d tables, %d rows; said %q", len(tables), len(s.rows), said()+again())
	}
	if string(s.summary["eval/held_out/accuracy/mean@4"]) != "0.1875" || string(s.summary["actor/final_loss"]) != "0.5" {
		t.Errorf("the summary is %s", s.summary)
	}
	var named []string
	each(t, filepath.Join(dir, "wandb", "offline-run-*", "run-*.wandb"), func(m fieldsOf) {
		if m.has(wandbFiles) {
			named = append(named, string(m.sub(wandbFiles).sub(1).bytes[1]))
		}
	})
	if len(named) != 3 {
		t.Errorf("the file names the tables %v", named)
	}
	for _, path := range named {
		found, err := filepath.Glob(filepath.Join(dir, "wandb", "offline-run-*", "files", path))
		if err != nil || len(found) != 1 || s.files[path] == "" {
			t.Errorf("%s: %v, %v", path, found, err)
		}
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
