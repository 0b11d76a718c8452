package tinker

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// leftOut are the calls of the API that this version refuses, each with what to do instead.
var leftOut = map[string]string{
	"POST create_custom_loss":    "pass a function to forward_backward_custom: the SDK computes its derivatives itself",
	"POST retrieve_futures":      "ask for each result by retrieve_future",
	"POST auth/token":            "send the key itself, as X-API-Key",
	"GET auth/apikey/me":         "`trinity keys list` on the machine of the service lists the keys",
	"DELETE auth/apikey/me":      "`trinity keys remove NAME` on the machine of the service removes a key",
	"GET audit":                  "the service keeps no audit log",
	"GET billing/usage/events":   "the service bills nothing",
	"POST join_sampling_session": "a copy of a sampling client draws its number itself",

	"GET billing/usage/checkpoints/current": "the lists of checkpoints have the size of each",
	"GET sessions/{id}/trace_export":        "the service writes no traces",

	"GET training_runs/{run}/checkpoints/{kind}/{name}/external_weights_urls": "checkpoints are PEFT directories: GET .../archive downloads one",
}

// manage adds the calls about sessions, runs and checkpoints.
func (s *Server) manage(mux *http.ServeMux) {
	route := func(pattern string, answer func(r *http.Request, owner string, body []byte) (any, error)) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := s.body(w, r)
			var reply any
			if err == nil {
				reply, err = answer(r, ownerOf(r.Context()), body)
			}
			s.reply(w, reply, err)
		})
	}
	for pattern, instead := range leftOut {
		route(pattern, func(r *http.Request, _ string, _ []byte) (any, error) {
			return nil, missing("%s is not in this version: %s", strings.TrimPrefix(r.URL.Path, "/api/v1/"), instead)
		})
	}
	route("POST sessions/{id}/finish", func(r *http.Request, owner string, _ []byte) (any, error) {
		s.finish(owner, r.PathValue("id"))
		return struct{}{}, nil
	})
	route("GET samplers/{id}", func(r *http.Request, owner string, _ []byte) (any, error) {
		return s.samplerInfo(owner, r.PathValue("id"))
	})
	route("GET training_runs", s.listRuns)
	route("GET training_runs/{run}", s.oneRun)
	route("GET checkpoints", func(r *http.Request, owner string, _ []byte) (any, error) {
		return checkpointPage(r, s.named(owner, false))
	})
	route("GET training_runs/{run}/checkpoints", s.checkpointsOfRun)
	route("GET sessions", s.listSessions)
	route("GET sessions/{id}", s.oneSession)
	route("PUT sessions/{id}/project", s.moveSession)
	route("POST sessions/search", s.searchSessions)
	route("POST copy_weights", s.copyCall)

	const one = " training_runs/{run}/checkpoints/{kind}/{name}"
	route("DELETE"+one, func(r *http.Request, owner string, _ []byte) (any, error) {
		return struct{}{}, s.delete(owner, pathOf(r))
	})
	route("DELETE training_runs/{run}/checkpoints/{name}", func(r *http.Request, _ string, _ []byte) (any, error) {
		return nil, missing("there is no checkpoint %.150q of %.150q: want %s/NAME or %s/NAME, as in its path",
			r.PathValue("name"), r.PathValue("run"), tinker.Weights, tinker.SamplerWeights)
	})
	for method, public := range map[string]bool{"POST": true, "DELETE": false} {
		route(method+one+"/publish", func(r *http.Request, owner string, _ []byte) (any, error) {
			return struct{}{}, s.change(owner, pathOf(r), func(f *facts) { f.Public = public })
		})
	}
	route("PUT"+one+"/ttl", func(r *http.Request, owner string, body []byte) (any, error) {
		var in struct {
			Seconds *int64 `json:"ttl_seconds"`
		}
		if err := read(body, &in); err != nil {
			return nil, err
		}
		at, err := expiry(in.Seconds)
		if err != nil {
			return nil, err
		}
		return struct{}{}, s.change(owner, pathOf(r), func(f *facts) { f.Expires = at })
	})
	s.archives(mux)
}

func pathOf(r *http.Request) tinker.Path {
	return tinker.Path{Run: r.PathValue("run"), Kind: r.PathValue("kind"), Name: r.PathValue("name")}
}

// delete removes a checkpoint of an owner.
func (s *Server) delete(owner string, p tinker.Path) error {
	s.describing.Lock()
	defer s.describing.Unlock()
	c, err := s.owned(owner, p)
	if err != nil {
		return err
	}
	return durable.RemoveDir(c.dir)
}

// maxPage bounds what a list answers at once.
const maxPage = 1000

// page returns the part of a list that a request asks for.
func page[T any](r *http.Request, usual int, all []T) ([]T, tinker.Cursor, error) {
	c := tinker.Cursor{Limit: usual, Total: len(all)}
	for name, into := range map[string]*int{"limit": &c.Limit, "offset": &c.Offset} {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || name == "limit" && (n == 0 || n > maxPage) {
			return nil, c, bad("%s is %.40q: want a number, limit 1 to %d", name, text, maxPage)
		}
		*into = n
	}
	from := min(c.Offset, len(all))
	return append([]T{}, all[from:min(from+c.Limit, len(all))]...), c, nil
}

func isAccessible(r *http.Request) bool { return r.URL.Query().Get("access_scope") == "accessible" }

func checkpointPage(r *http.Request, of []*checkpoint) (any, error) {
	all := []tinker.Checkpoint{}
	for _, c := range of {
		all = append(all, c.listed())
	}
	part, cursor, err := page(r, 100, all)
	return map[string]any{"checkpoints": part, "cursor": cursor}, err
}

// runs returns the runs that an owner has or, if accessible, of which it may read a checkpoint: the latest request first.
func (s *Server) runs(owner string, accessible bool) []*tinker.TrainingRun {
	var all []*tinker.TrainingRun
	known := map[string]*tinker.TrainingRun{}
	add := func(id, of string, m *recipe, at time.Time, metadata map[string]string) *tinker.TrainingRun {
		run := known[id]
		if run == nil {
			run = &tinker.TrainingRun{
				ID: id, BaseModel: m.BaseModel, Owner: of, IsLoRA: true, LoRARank: m.Rank, LastRequest: at, UserMetadata: metadata,
			}
			known[id], all = run, append(all, run)
		}
		return run
	}
	s.mu.Lock()
	for _, m := range s.models {
		if m.session.owner == owner {
			add(m.id, owner, &m.recipe, m.lastRequest(), m.about)
		}
	}
	s.mu.Unlock()
	for _, c := range s.named(owner, accessible) { // the newest first
		run, listed := add(c.path.Run, c.Owner, &c.recipe, c.Time, c.Run), c.listed()
		into := &run.LastCheckpoint
		if c.path.Kind != tinker.Weights {
			into = &run.LastSamplerCheckpoint
		}
		if *into == nil {
			*into = &listed
		}
	}
	slices.SortFunc(all, func(a, b *tinker.TrainingRun) int {
		return cmp.Or(b.LastRequest.Compare(a.LastRequest), strings.Compare(a.ID, b.ID))
	})
	return all
}

// lastRequest returns when something of the model ran last.
func (m *model) lastRequest() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.idle.After(m.made) {
		return m.idle.UTC()
	}
	return m.made.UTC()
}

func (s *Server) listRuns(r *http.Request, owner string, _ []byte) (any, error) {
	all := s.runs(owner, isAccessible(r))
	if project := r.URL.Query().Get("project_id"); project != "" {
		inside := map[string]bool{}
		for _, x := range s.allSessions(owner, isAccessible(r)) {
			inside[x.ID] = x.ProjectID == project
		}
		all = slices.DeleteFunc(all, func(run *tinker.TrainingRun) bool { return !inside[sessionOf(run.ID)] })
	}
	part, cursor, err := page(r, 20, all)
	return map[string]any{"training_runs": part, "cursor": cursor}, err
}

func (s *Server) oneRun(r *http.Request, owner string, _ []byte) (any, error) {
	id := r.PathValue("run")
	for _, run := range s.runs(owner, isAccessible(r)) {
		if run.ID == id {
			return run, nil
		}
	}
	return nil, missing("there is no training run %.200q: it has no checkpoint, and its session has ended", id)
}

func (s *Server) checkpointsOfRun(r *http.Request, owner string, _ []byte) (any, error) {
	if _, err := s.oneRun(r, owner, nil); err != nil {
		return nil, err
	}
	of := slices.DeleteFunc(s.named(owner, false), func(c *checkpoint) bool { return c.path.Run != r.PathValue("run") })
	all := []tinker.Checkpoint{}
	for _, c := range of {
		all = append(all, c.listed())
	}
	return map[string]any{"checkpoints": all}, nil
}

// copyCall copies a checkpoint into a run that cannot be trained.
func (s *Server) copyCall(r *http.Request, owner string, body []byte) (any, error) {
	var in tinker.CopyWeights
	if err := read(body, &in); err != nil {
		return nil, err
	}
	if in.AccessToken != "" || r.Header.Get("X-Tinker-Weights-Access-Token") != "" {
		return nil, noAccessTokens
	}
	id := rand.Text()
	if key := r.Header.Get("X-Idempotency-Key"); key != "" {
		sum := sha256.Sum256([]byte(owner + "\x00" + key))
		id = base32.StdEncoding.EncodeToString(sum[:15])
	}
	run := strings.ToLower(id) + ":copy:0"
	if in.SessionID != "" {
		var err error
		if _, run, err = s.numbered(owner, in.SessionID, "train", in.ModelSeqID, "model_seq_id"); err != nil {
			return nil, err
		}
	}
	c, err := s.copyWeights(r.Context(), &in, run)
	if err != nil {
		return nil, err
	}
	return map[string]string{"tinker_path": c.path.String()}, nil
}

// ownerKey is the key of a context whose value is the name of the client's key.
type ownerKey struct{}

// ownerOf returns the name of the key of a client. It is "" without keys.
func ownerOf(ctx context.Context) string {
	name, _ := ctx.Value(ownerKey{}).(string)
	return name
}
