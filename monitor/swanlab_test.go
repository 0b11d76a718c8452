package monitor

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// swanlabRecorder answers as SwanLab's server does, and keeps what it gets. It takes a point as often as
// it comes.
type swanlabRecorder struct {
	mu       sync.Mutex
	version  int // of the project; 0 is an older server
	made     bool
	runs     map[string]map[string]any // experiments by ID, as they were asked for
	columns  map[string]map[string]any
	got      points
	newest   map[string]int64
	config   map[string]any
	state    string
	beats    int
	logins   int
	sid      string
	requests []string // method, path and body of each, except of logins
}

func (s *swanlabRecorder) handler(t *testing.T) http.Handler {
	s.runs, s.columns, s.got, s.newest = map[string]map[string]any{}, map[string]map[string]any{}, points{}, map[string]int64{}
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(r *http.Request, in any) (int, any)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			var in any
			if r.ContentLength != 0 && r.Method != http.MethodGet {
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
					t.Errorf("%s: %v", r.URL, err)
				}
			}
			code, out := http.StatusUnauthorized, any(map[string]any{"code": "unauthorized", "message": "no session"})
			if cookie, err := r.Cookie("sid"); err == nil && cookie.Value == s.sid || strings.HasSuffix(pattern, "api_key") {
				code, out = answer(r, in)
			}
			if !strings.HasSuffix(pattern, "api_key") && code != http.StatusUnauthorized {
				body, _ := json.Marshal(in)
				s.requests = append(s.requests, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(out)
		})
	}
	handle("POST /api/login/api_key", func(r *http.Request, _ any) (int, any) {
		if r.Header.Get("Authorization") != "a-secret-key" || r.Header.Get("X-Swanlab-Sdk-Version") == "" {
			return http.StatusUnauthorized, map[string]any{"code": "unauthorized", "message": "the key is wrong"}
		}
		s.logins++
		s.sid = fmt.Sprint("session", s.logins)
		return http.StatusOK, map[string]any{"sid": s.sid, "expiredAt": "2999-01-01T00:00:00.000Z", "userInfo": map[string]any{"username": "me"}}
	})
	handle("GET /api/project/me/p", func(*http.Request, any) (int, any) {
		if !s.made {
			return http.StatusNotFound, map[string]any{"code": "none", "message": "no project"}
		}
		p := map[string]any{"cuid": "P", "name": "p", "path": "/me/p", "group": map[string]any{"username": "me"},
			"visibility": "PRIVATE", "_count": map[string]any{"experiments": 0}}
		if s.version > 0 {
			p["version"] = s.version
		}
		return http.StatusOK, p
	})
	handle("POST /api/projects/me", func(_ *http.Request, in any) (int, any) {
		s.made = in.(map[string]any)["name"] == "p"
		return http.StatusCreated, map[string]any{}
	})
	handle("POST /api/project/me/p/experiment", func(_ *http.Request, in any) (int, any) {
		run := in.(map[string]any)
		id, code := run["cuid"].(string), http.StatusOK
		if s.runs[id] == nil {
			s.runs[id], code = run, http.StatusCreated
		}
		s.state = ""
		return code, map[string]any{"cuid": id, "name": run["name"], "createdAt": run["createdAt"]}
	})
	handle("PUT /api/project/me/p/runs/{id}/profile", func(_ *http.Request, in any) (int, any) {
		if config, ok := in.(map[string]any)["config"].(map[string]any); ok {
			s.config = config
		}
		return http.StatusOK, map[string]any{}
	})
	addColumns := func(columns any) (int, any) {
		for _, one := range columns.([]any) {
			c := one.(map[string]any)
			s.columns[c["key"].(string)] = c
		}
		return http.StatusCreated, map[string]any{}
	}
	handle("POST /api/projects/me/p/series", func(_ *http.Request, in any) (int, any) { return addColumns(in.(map[string]any)["series"]) })
	handle("POST /api/experiment/{id}/columns", func(_ *http.Request, in any) (int, any) { return addColumns(in) })
	handle("POST /api/house/metrics", func(_ *http.Request, in any) (int, any) {
		m := in.(map[string]any)
		if m["projectId"] != "P" || s.runs[m["experimentId"].(string)] == nil || m["type"] != "scalar" {
			return http.StatusBadRequest, map[string]any{"message": "no such run"}
		}
		for _, one := range m["metrics"].([]any) {
			p := one.(map[string]any)
			key, step := p["key"].(string), int64(p["index"].(float64))
			v, finite := p["data"].(float64)
			if !finite {
				v = math.NaN()
			}
			if s.columns[key] == nil {
				t.Errorf("a point of %s before its column", key)
			}
			if _, err := time.Parse(time.RFC3339, p["create_time"].(string)); err != nil {
				t.Error(err)
			}
			s.got.add(key, step, v)
			s.newest[key] = max(s.newest[key], step)
		}
		return http.StatusOK, map[string]any{}
	})
	handle("GET /api/house/metrics/summaries/P/{id}", func(r *http.Request, _ any) (int, any) {
		if r.FormValue("all") != "True" || len(r.FormValue("createdAt")) < 10 {
			t.Errorf("asks for %s", r.URL)
		}
		scalar := []any{}
		for key, step := range s.newest {
			scalar = append(scalar, map[string]any{"key": key, "step": step})
		}
		return http.StatusOK, map[string]any{"scalar": scalar, "log": nil, "media": nil}
	})
	handle("PUT /api/project/me/p/runs/{id}/state", func(_ *http.Request, in any) (int, any) {
		s.state = in.(map[string]any)["state"].(string)
		return http.StatusOK, map[string]any{}
	})
	handle("POST /api/house/experiments/{id}/heartbeat", func(*http.Request, any) (int, any) {
		s.beats++
		return http.StatusOK, map[string]any{}
	})
	return mux
}

func (s *swanlabRecorder) points() points { s.mu.Lock(); defer s.mu.Unlock(); return maps.Clone(s.got) }

func (s *swanlabRecorder) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]Status{"FINISHED": Finished, "CRASHED": Failed, "ABORTED": Stopped}[s.state]
}

func newSwanLabServer(t *testing.T, _ string, f *faults) service {
	t.Setenv("SWANLAB_API_KEY", "a-secret-key")
	s := &swanlabRecorder{version: 1}
	return service{args: map[string]any{"api_host": f.serve(t, s.handler(t))}, points: s.points, status: s.status}
}

// A session that has ended begins anew, an older server gets columns in its own way, and the settings are
// there.
func TestSwanLabServers(t *testing.T) {
	for _, version := range []int{0, 1} {
		t.Setenv("SWANLAB_API_KEY", "a-secret-key")
		dir, s := t.TempDir(), &swanlabRecorder{version: version}
		args := map[string]any{"api_host": (&faults{}).serve(t, s.handler(t)), "tags": []any{"a"}}
		monitors, said := followed(t, dir, "swanlab", args)
		logSteps(t, monitors, 1, 1)
		for len(s.points()) == 0 {
			time.Sleep(time.Millisecond)
		}
		s.mu.Lock()
		s.sid = "another"
		s.mu.Unlock()
		logSteps(t, monitors, 2, 3)
		for _, m := range monitors {
			logAll(t, m, rec("trainer", 4, trinity.Metrics{"actor/kl": math.Inf(1)}))
		}
		end(t, monitors, Finished)
		if got := s.points(); said() != "" || got["actor/kl 4 NaN"] != 1 || len(got) != 15*3-2 || s.logins != 2 || s.status() != Finished {
			t.Errorf("said %q; %d points, %d logins, %q", said(), len(got), s.logins, s.status())
		}
		wanted := "/api/projects/me/p/series "
		if version == 0 {
			wanted = "/columns "
		}
		if !slices.ContainsFunc(s.requests, func(r string) bool { return strings.Contains(r, wanted) }) {
			t.Errorf("no request for %s", wanted)
		}
		if c := s.columns["rollout/reward/mean"]; c["type"] != "FLOAT" || c["sectionName"] != "rollout" {
			t.Errorf("a column is %v", c)
		}
		if v, ok := s.config["algorithm.repeat_times"].(map[string]any); !ok || v["value"] != 8.0 {
			t.Errorf("the settings are %v", s.config)
		}
		if matches, err := filepath.Glob(filepath.Join(dir, "swanlab", "run-*.swanlab")); err != nil || len(matches) != 1 {
			t.Errorf("%v, %v", matches, err)
		}
		if sent, err := Sync(t.Context(), dir, "swanlab", args, nil); sent != 0 || err != nil {
			t.Errorf("sync: %d, %v", sent, err)
		}
	}
}

// A run that began without a key is uploaded by SwanLab's own program.
func TestSwanLabBeganOffline(t *testing.T) {
	dir := t.TempDir()
	monitors, _ := followed(t, dir, "swanlab", nil)
	logSteps(t, monitors, 1, 2)
	end(t, monitors, Stopped)
	s := newSwanLabServer(t, dir, &faults{})
	monitors, said := followed(t, dir, "swanlab", s.args)
	logSteps(t, monitors, 3, 4)
	end(t, monitors, Finished)
	if !strings.Contains(said(), "the run began offline: swanlab sync "+filepath.Join(dir, "swanlab")+" uploads it") || len(s.points()) > 0 {
		t.Errorf("said %q", said())
	}
	compare(t, dir, newSwanLab(t, dir, nil))
}

func TestSwanLabRefusesTheKey(t *testing.T) {
	t.Setenv("SWANLAB_API_KEY", "another-secret")
	monitors, said := followed(t, t.TempDir(), "swanlab", map[string]any{"api_host": (&faults{}).serve(t, (&swanlabRecorder{}).handler(t))})
	logSteps(t, monitors, 1, 1)
	end(t, monitors, Finished)
	if !strings.Contains(said(), "401 Unauthorized: the key is wrong") || strings.Contains(said(), "another-secret") {
		t.Errorf("said %q", said())
	}
}

// A service hears of a run whose next record takes long.
func TestSinksBeat(t *testing.T) {
	oldSwanLab, oldWandb := swanlabBeat, wandbBeat
	swanlabBeat, wandbBeat = time.Millisecond, time.Millisecond
	t.Cleanup(func() { swanlabBeat, wandbBeat = oldSwanLab, oldWandb })
	t.Setenv("SWANLAB_API_KEY", "a-secret-key")
	t.Setenv("WANDB_API_KEY", strings.Repeat("a", 40))
	lab, w := &swanlabRecorder{version: 1}, &wandbServer{}
	for name, c := range map[string]struct {
		args  map[string]any
		beats func() int
	}{
		"swanlab": {map[string]any{"api_host": (&faults{}).serve(t, lab.handler(t))},
			func() int { lab.mu.Lock(); defer lab.mu.Unlock(); return lab.beats }},
		"wandb": {map[string]any{"base_url": (&faults{}).serve(t, w.handler(t))},
			func() int { w.mu.Lock(); defer w.mu.Unlock(); return w.beats }},
	} {
		monitors, said := followed(t, t.TempDir(), name, c.args)
		logSteps(t, monitors, 1, 1)
		for end := time.Now().Add(time.Minute); c.beats() < 2 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		end(t, monitors, Finished)
		if c.beats() < 2 || said() != "" {
			t.Errorf("%s: %d beats; said %q", name, c.beats(), said())
		}
	}
}
