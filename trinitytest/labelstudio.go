package trinitytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// LabelStudio is a fake server with the parts of Label Studio's API for annotating pairs. It
// accepts Key, a legacy token, and PersonalKey.
type LabelStudio struct {
	*httptest.Server
	// If Annotate is set, it returns the immediate annotation of each imported task: left, right,
	// skip, or "" for none.
	Annotate func(data map[string]any) string
	// If Fail is set, it may answer a request with another status. The server calls it before and
	// after it executes the request.
	Fail func(method, path string, after bool) (status int)
	// If Registered is set, the server calls it after registering a webhook.
	Registered func()

	mu       sync.Mutex
	projects []lsProject
	tasks    []lsTask
	hooks    []lsHook
	access   int // number of access tokens given
	requests []string
}

const (
	Key         = "0123456789abcdef0123456789abcdef01234567"
	PersonalKey = "header.payload.signature"
)

type lsProject struct {
	ID          int    `json:"id"`
	Title       string `json:"title"`
	LabelConfig string `json:"label_config"`
	Annotations int    `json:"total_annotations_number"`
}

type lsTask struct {
	ID          int              `json:"id"`
	Project     int              `json:"project"`
	Data        map[string]any   `json:"data"`
	Annotations []map[string]any `json:"annotations"`
}

type lsHook struct {
	ID      int      `json:"id"`
	Project int      `json:"project"`
	URL     string   `json:"url"`
	Actions []string `json:"actions"`
}

// NewLabelStudio starts a server without projects.
func NewLabelStudio(t *testing.T) *LabelStudio {
	ls := &LabelStudio{}
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(r *http.Request, body []byte) (int, any){
		"GET /api/projects/": ls.listProjects, "POST /api/projects/": ls.createProject, "GET /api/projects/{id}/": ls.project,
		"POST /api/projects/{id}/import": ls.importTasks, "GET /api/tasks/": ls.listTasks,
		"GET /api/webhooks/": ls.listHooks, "POST /api/webhooks/": ls.createHook, "DELETE /api/webhooks/{id}/": ls.deleteHook,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { ls.serve(w, r, answer) })
	}
	mux.HandleFunc("POST /api/token/refresh", ls.refresh)
	ls.Server = httptest.NewServer(mux)
	t.Cleanup(ls.Close)
	return ls
}

func (ls *LabelStudio) serve(w http.ResponseWriter, r *http.Request, answer func(*http.Request, []byte) (int, any)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.requests = append(ls.requests, r.Method+" "+r.URL.Path)
	auth := r.Header.Get("Authorization")
	if auth != "Token "+Key && auth != fmt.Sprintf("Bearer access-%d", ls.access) {
		reply(w, http.StatusUnauthorized, map[string]string{"detail": "Invalid token."})
		return
	}
	if status := ls.fails(r, false); status != 0 {
		reply(w, status, map[string]string{"detail": "as the test wants"})
		return
	}
	var body json.RawMessage
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			reply(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	status, out := answer(r, body)
	if after := ls.fails(r, true); after != 0 {
		status, out = after, nil
	}
	reply(w, status, out)
}

func (ls *LabelStudio) fails(r *http.Request, after bool) int {
	if ls.Fail == nil {
		return 0
	}
	return ls.Fail(r.Method, r.URL.Path, after)
}

func reply(w http.ResponseWriter, status int, out any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // the client may have closed the connection
}

func (ls *LabelStudio) refresh(w http.ResponseWriter, r *http.Request) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var in struct{ Refresh string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Refresh != PersonalKey {
		reply(w, http.StatusUnauthorized, map[string]string{"detail": "Token is invalid or expired"})
		return
	}
	ls.access++
	reply(w, http.StatusOK, map[string]string{"access": fmt.Sprintf("access-%d", ls.access)})
}

// page returns the range of a page in a list of n entries.
func page(r *http.Request, n int) (from, to int) {
	number, size := 1, 30
	if v, err := strconv.Atoi(r.URL.Query().Get("page")); err == nil {
		number = v
	}
	if v, err := strconv.Atoi(r.URL.Query().Get("page_size")); err == nil {
		size = v
	}
	return min(n, (number-1)*size), min(n, number*size)
}

func (ls *LabelStudio) listProjects(r *http.Request, _ []byte) (int, any) {
	found := []lsProject{}
	for _, p := range ls.projects {
		if strings.Contains(strings.ToLower(p.Title), strings.ToLower(r.URL.Query().Get("title"))) {
			found = append(found, p)
		}
	}
	from, to := page(r, len(found))
	out := map[string]any{"count": len(found), "next": nil, "results": found[from:to]}
	if to < len(found) {
		out["next"] = "the next page's address"
	}
	return http.StatusOK, out
}

func (ls *LabelStudio) createProject(_ *http.Request, body []byte) (int, any) {
	var p lsProject
	if err := json.Unmarshal(body, &p); err != nil || p.Title == "" || !strings.Contains(p.LabelConfig, "<Pairwise") {
		return http.StatusBadRequest, map[string]string{"detail": "Validation error"}
	}
	p.ID = len(ls.projects) + 1
	ls.projects = append(ls.projects, p)
	return http.StatusCreated, p
}

func (ls *LabelStudio) project(r *http.Request, _ []byte) (int, any) {
	for _, p := range ls.projects {
		if r.PathValue("id") == fmt.Sprint(p.ID) {
			return http.StatusOK, p
		}
	}
	return http.StatusNotFound, map[string]string{"detail": "Not found."}
}

func (ls *LabelStudio) importTasks(r *http.Request, body []byte) (int, any) {
	var tasks []lsTask
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || json.Unmarshal(body, &tasks) != nil || id < 1 || id > len(ls.projects) {
		return http.StatusBadRequest, map[string]string{"detail": "Validation error"}
	}
	for _, t := range tasks {
		t.ID, t.Project = 100+len(ls.tasks), id
		ls.tasks = append(ls.tasks, t)
		if ls.Annotate != nil {
			ls.annotate(len(ls.tasks)-1, ls.Annotate(t.Data))
		}
	}
	return http.StatusCreated, map[string]any{"task_count": len(tasks), "annotation_count": 0}
}

// annotate adds an annotation to a task.
func (ls *LabelStudio) annotate(at int, selected string) {
	annotation := map[string]any{"id": 1, "was_cancelled": selected == "skip", "result": []any{}}
	switch selected {
	case "":
		return
	case "skip":
	default:
		annotation["result"] = []any{map[string]any{"type": "pairwise", "from_name": "comparison", "value": map[string]any{"selected": selected}}}
	}
	t := &ls.tasks[at]
	t.Annotations = append(t.Annotations, annotation)
	ls.projects[t.Project-1].Annotations++
}

func (ls *LabelStudio) listTasks(r *http.Request, _ []byte) (int, any) {
	found := []lsTask{}
	for _, t := range ls.tasks {
		if r.URL.Query().Get("project") == fmt.Sprint(t.Project) {
			found = append(found, t)
		}
	}
	if r.URL.Query().Get("fields") != "all" {
		for i := range found {
			found[i].Annotations = nil
		}
	}
	from, to := page(r, len(found))
	if from >= len(found) && from > 0 {
		return http.StatusNotFound, map[string]string{"detail": "Invalid page."}
	}
	return http.StatusOK, map[string]any{"total": len(found), "tasks": found[from:to]}
}

func (ls *LabelStudio) listHooks(*http.Request, []byte) (int, any) { return http.StatusOK, ls.hooks }

func (ls *LabelStudio) createHook(_ *http.Request, body []byte) (int, any) {
	var h lsHook
	if err := json.Unmarshal(body, &h); err != nil {
		return http.StatusBadRequest, err.Error()
	}
	h.ID = 1
	for _, old := range ls.hooks {
		h.ID = max(h.ID, old.ID+1)
	}
	ls.hooks = append(ls.hooks, h)
	if ls.Registered != nil {
		go ls.Registered()
	}
	return http.StatusCreated, h
}

func (ls *LabelStudio) deleteHook(r *http.Request, _ []byte) (int, any) {
	n := len(ls.hooks)
	ls.hooks = slices.DeleteFunc(ls.hooks, func(h lsHook) bool { return r.PathValue("id") == fmt.Sprint(h.ID) })
	if len(ls.hooks) == n {
		return http.StatusNotFound, nil
	}
	return http.StatusNoContent, nil
}

// Say annotates every task without an annotation, like a person, and calls the webhooks. It returns
// the number of these tasks.
func (ls *LabelStudio) Say(selected func(data map[string]any) string) int {
	ls.mu.Lock()
	n := 0
	for i, t := range ls.tasks {
		if len(t.Annotations) == 0 {
			ls.annotate(i, selected(t.Data))
			n++
		}
	}
	hooks := slices.Clone(ls.hooks)
	ls.mu.Unlock()
	for _, h := range hooks {
		if resp, err := http.Post(h.URL, "application/json", strings.NewReader(`{"action":"ANNOTATION_CREATED"}`)); err == nil {
			_ = resp.Body.Close()
		}
	}
	return n
}

// Tasks returns the data of all tasks.
func (ls *LabelStudio) Tasks() []map[string]any {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var out []map[string]any
	for _, t := range ls.tasks {
		out = append(out, t.Data)
	}
	return out
}

// Projects returns the titles of all projects.
func (ls *LabelStudio) Projects() []string {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var out []string
	for _, p := range ls.projects {
		out = append(out, p.Title)
	}
	return out
}

// Hooks returns the addresses of the registered webhooks.
func (ls *LabelStudio) Hooks() []string {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var out []string
	for _, h := range ls.hooks {
		out = append(out, h.URL)
	}
	return out
}

// Count returns the number of requests with a method and path.
func (ls *LabelStudio) Count(request string) int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	n := 0
	for _, r := range ls.requests {
		if r == request {
			n++
		}
	}
	return n
}

// Expire invalidates the last access token.
func (ls *LabelStudio) Expire() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.access++
}

// AddHook registers a webhook.
func (ls *LabelStudio) AddHook(url string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.hooks = append(ls.hooks, lsHook{ID: 900 + len(ls.hooks), Project: 1, URL: url})
}
