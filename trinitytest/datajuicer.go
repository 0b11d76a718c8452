package trinitytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Juicer is a fake Data-Juicer service with the real protocol and one operator, Edit.
type Juicer struct {
	// Edit changes a row. It returns the row's statistics and whether to keep it.
	Edit func(row map[string]any) (stats map[string]float64, keep bool)
	URL  string

	mu       sync.Mutex
	sessions map[string]map[string]any // settings by id
	Created  []map[string]any          // settings of all sessions so far
}

// Handler serves the protocol.
func (j *Juicer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"status": "ok"}`) })
	mux.HandleFunc("POST /create", j.create)
	mux.HandleFunc("POST /process_task", j.task)
	mux.HandleFunc("POST /process_experience", j.experience)
	mux.HandleFunc("POST /close", func(w http.ResponseWriter, r *http.Request) {
		if id, _, ok := j.session(w, r); ok {
			delete(j.sessions, id)
			fmt.Fprint(w, `{"message": "closed"}`)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j.mu.Lock()
		defer j.mu.Unlock()
		mux.ServeHTTP(w, r)
	})
}

// NewJuicer starts a service for the test. The test fails if a session is still open at its end.
func NewJuicer(t *testing.T, edit func(row map[string]any) (stats map[string]float64, keep bool)) *Juicer {
	t.Helper()
	j := &Juicer{Edit: edit}
	s := httptest.NewServer(j.Handler())
	t.Cleanup(func() {
		s.Close()
		if len(j.sessions) > 0 {
			t.Errorf("%d sessions of Data-Juicer were not closed", len(j.sessions))
		}
	})
	j.URL = s.URL
	return j
}

func (j *Juicer) create(w http.ResponseWriter, r *http.Request) {
	var settings map[string]any
	if err := json.NewDecoder(r.Body).Decode(&settings); err != nil || settings["operators"] == nil && settings["config_path"] == nil {
		refuse(w, http.StatusBadRequest, "Failed to parse config: Must provide at least one of config_path or operators.")
		return
	}
	id := fmt.Sprintf("session-%d", len(j.Created))
	if j.sessions == nil {
		j.sessions = map[string]map[string]any{}
	}
	j.sessions[id], j.Created = settings, append(j.Created, settings)
	fmt.Fprintf(w, `{"session_id": %q, "message": "created"}`, id)
}

// session returns the session of a request in JSON.
func (j *Juicer) session(w http.ResponseWriter, r *http.Request) (id string, settings map[string]any, ok bool) {
	var body map[string]string
	_ = json.NewDecoder(r.Body).Decode(&body)
	id = body["session_id"]
	if settings, ok = j.sessions[id]; !ok {
		refuse(w, http.StatusNotFound, "Session ID not found.")
	}
	return id, settings, ok
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why})
}

// task writes the remaining rows in reverse order, as if by priority. Like a table, every row has
// every key that any row has.
func (j *Juicer) task(w http.ResponseWriter, r *http.Request) {
	_, settings, ok := j.session(w, r)
	if !ok {
		return
	}
	var rows []map[string]any
	keys := map[string]bool{}
	for _, path := range settings["inputs"].([]any) {
		data, err := os.ReadFile(path.(string))
		if err != nil {
			refuse(w, http.StatusInternalServerError, "Task processing failed:\nTraceback\n"+err.Error())
			return
		}
		for line := range strings.Lines(string(data)) {
			var row map[string]any
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				refuse(w, http.StatusInternalServerError, err.Error())
				return
			}
			for k := range row {
				keys[k] = true
			}
			if stats, keep := j.Edit(row); keep {
				row["__dj__stats__"], row["priority"], row["quality_score"], row["quality_score_detail"] = stats, 0.5, 0.0, map[string]any{}
				rows = append(rows, row)
			}
		}
	}
	slices.Reverse(rows)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for _, row := range rows {
		for k := range keys {
			if _, ok := row[k]; !ok {
				row[k] = nil
			}
		}
		if err := enc.Encode(row); err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
	}
	if err := os.WriteFile(filepath.Join(settings["output_dir"].(string), "output.jsonl"), out.Bytes(), 0o644); err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	fmt.Fprintf(w, `{"metrics": {"sample_num": %d}}`, len(rows))
}

func (j *Juicer) experience(w http.ResponseWriter, r *http.Request) {
	if _, ok := j.sessions[r.FormValue("session_id")]; !ok {
		refuse(w, http.StatusNotFound, "Session ID not found.")
		return
	}
	file, _, err := r.FormFile("arrow_data")
	if err != nil {
		refuse(w, http.StatusBadRequest, "No file uploaded.")
		return
	}
	table, err := j.edit(file)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Experience processing failed:\nTraceback (most recent call last):\n"+err.Error())
		return
	}
	w.Header().Set("X-Metrics", `{"seen": 1}`)
	_, _ = w.Write(table)
}

// edit applies Edit to a table and returns the remaining table.
func (j *Juicer) edit(table io.Reader) ([]byte, error) {
	in, err := ipc.NewReader(table)
	if err != nil {
		return nil, err
	}
	batch, err := in.Read()
	if err != nil {
		return nil, err
	}
	data, err := batch.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var rows, left []map[string]any
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, row := range rows {
		stats, keep := j.Edit(row)
		if !keep {
			continue
		}
		row["__dj__stats__"] = stats
		for name := range stats {
			names[name] = true
		}
		left = append(left, row)
	}
	fields := slices.Clone(in.Schema().Fields())
	var of []arrow.Field
	for name := range names {
		of = append(of, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64, Nullable: true})
	}
	if len(of) > 0 {
		fields = append(fields, arrow.Field{Name: "__dj__stats__", Type: arrow.StructOf(of...), Nullable: true})
	}
	schema := arrow.NewSchema(fields, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if len(left) > 0 {
		if data, err = json.Marshal(left); err != nil {
			return nil, err
		}
		edited, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		if err := w.Write(edited); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}
