package monitor

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
)

// newMLflow is a server that knows as much of MLflow's API as the sink uses, with its limits.
func newMLflow(t *testing.T, _ string, f *faults) service {
	var mu sync.Mutex
	runs, status, got, seen := map[string]string{}, Status(""), points{}, map[string]bool{}
	refuse := func(w http.ResponseWriter, why string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error_code": %q, "message": "refused"}`, why)
	}
	mux := http.NewServeMux()
	made := false
	handle := func(what string, do func(w http.ResponseWriter, in map[string]any)) {
		mux.HandleFunc("/api/2.0/mlflow/"+what, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			in := map[string]any{}
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil && r.Method == http.MethodPost {
				t.Error(err)
			}
			if user, password, _ := r.BasicAuth(); user != "me" || password != "pass" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			do(w, in)
		})
	}
	handle("experiments/create", func(w http.ResponseWriter, in map[string]any) {
		if made {
			refuse(w, "RESOURCE_ALREADY_EXISTS")
			return
		}
		made = in["name"] == "p"
		fmt.Fprint(w, `{"experiment_id": "7"}`)
	})
	handle("experiments/get-by-name", func(w http.ResponseWriter, _ map[string]any) {
		if !made {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `{"experiment": {"experiment_id": "7"}}`)
	})
	handle("runs/search", func(w http.ResponseWriter, in map[string]any) {
		for id, tag := range runs {
			if in["filter"] == "tags.`trinity.run_id` = '"+tag+"'" {
				fmt.Fprintf(w, `{"runs": [{"info": {"run_id": %q}, "data": {"params": [{"key": "algorithm.repeat_times", "value": "8"}]}}]}`, id)
				return
			}
		}
		fmt.Fprint(w, `{}`)
	})
	handle("runs/create", func(w http.ResponseWriter, in map[string]any) {
		tag := in["tags"].([]any)[0].(map[string]any)["value"].(string)
		id := fmt.Sprint("run", len(runs))
		runs[id] = tag
		fmt.Fprintf(w, `{"run": {"info": {"run_id": %q}}}`, id)
	})
	handle("runs/update", func(_ http.ResponseWriter, in map[string]any) {
		status = map[any]Status{"FINISHED": Finished, "FAILED": Failed, "KILLED": Stopped}[in["status"]]
	})
	handle("runs/log-batch", func(w http.ResponseWriter, in map[string]any) {
		metrics, _ := in["metrics"].([]any)
		if len(metrics) > 1000 || runs[in["run_id"].(string)] == "" {
			refuse(w, "INVALID_PARAMETER_VALUE")
			return
		}
		for _, one := range metrics {
			m := one.(map[string]any)
			key := fmt.Sprint(m)
			if seen[key] { // the primary key of its table
				continue
			}
			seen[key] = true
			var v rundir.Number
			text, _ := json.Marshal(m["value"])
			if err := v.UnmarshalJSON(text); err != nil {
				t.Error(err)
			}
			got.add(m["key"].(string), int64(m["step"].(float64)), float64(v))
		}
	})
	return service{
		args:   map[string]any{"uri": f.serve(t, mux), "username": "me", "password": "pass"},
		points: func() points { mu.Lock(); defer mu.Unlock(); return maps.Clone(got) },
		status: func() Status { mu.Lock(); defer mu.Unlock(); return status },
		named:  mlflowName,
	}
}

// A server that keeps artifacts elsewhere says so once, and has the metrics.
func TestMLflowKeepsArtifactsElsewhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "monitor")
	s := newMLflow(t, dir, &faults{})
	train(t, dir, 1, 1, 2)
	monitors, said := followed(t, dir, "mlflow", s.args)
	logSteps(t, monitors, 1, 2)
	end(t, monitors, Finished)
	compare(t, dir, s)
	if strings.Count(said(), "elsewhere") != 1 || strings.Contains(said(), "\n") {
		t.Errorf("the run says %q", said())
	}
	if tail, err := openTail(dir, "mlflow"); err != nil || tail.at.Tables != 0 {
		t.Errorf("the tables up to %d count as sent, %v", tail.at.Tables, err)
	}
}

func TestMLflowNames(t *testing.T) {
	for name, want := range map[string]string{
		"eval/sums/accuracy/mean@4": "eval/sums/accuracy/mean_at_4", "/a/../b": "_a/_/b", "größe/µ": "gr__e/_", "": "_",
		strings.Repeat("x", 300): strings.Repeat("x", 250), "two\nlines": "two_lines",
	} {
		if got := mlflowName(name); got != want {
			t.Errorf("%q is %q there, want %q", name, got, want)
		}
	}
}

func TestMLflowRefusesAnAddressThatIsNone(t *testing.T) {
	if _, err := Monitors.Build("mlflow", map[string]any{"uri": "localhost:5000"}); err == nil {
		t.Error("accepted localhost:5000")
	}
}
