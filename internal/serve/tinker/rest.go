package tinker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/wire/tinker"
)

const oneCheckpoint = "training_runs/{run}/checkpoints/{kind}/{name}"

// leftOut are the calls of the API that this version refuses, each with what to do instead.
var leftOut = map[string]string{
	"POST create_custom_loss":    "pass a function to forward_backward_custom: the SDK computes its derivatives itself",
	"POST retrieve_futures":      "ask for each result by retrieve_future",
	"POST auth/token":            "send the key itself, as X-API-Key",
	"GET auth/apikey/me":         "`trinity keys list` on the machine of the service lists the keys",
	"DELETE auth/apikey/me":      "`trinity keys remove NAME` on the machine of the service removes a key",
	"GET audit":                  "the service keeps no audit log",
	"GET billing/usage/events":   "the service bills nothing",
	"POST cancel_future":         "a result that nobody fetches goes with its session, a sample after a day",
	"POST unload_model":          "a model ends with its session",
	"POST join_sampling_session": "a copy of a sampling client draws its number itself",

	"GET billing/usage/checkpoints/current": "the lists of checkpoints have the size of each",
	"GET sessions/{id}/trace_export":        "the service writes no traces",

	"GET " + oneCheckpoint + "/external_weights_urls": "checkpoints are PEFT directories: GET .../archive downloads one",
}

// manage adds the calls about sessions, runs and checkpoints.
func (s *Server) manage(mux *http.ServeMux) {
	route := func(pattern string, do func(r *http.Request, owner string, body []byte) (any, error)) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := bodyOf(w, r, s.decoder, maxJSON)
			var reply any
			if err == nil {
				reply, err = do(r, Owner(r.Context()), body)
			}
			answer(w, reply, err)
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
		x, err := s.samplerOf(owner, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		return x.info(), nil
	})
	x := &lists{s.all.store, s.live, s.project}
	route("GET training_runs", x.runPage)
	route("GET training_runs/{run}", x.oneRun)
	route("GET checkpoints", func(r *http.Request, owner string, _ []byte) (any, error) {
		return checkpointPage(r, s.all.store.named(owner, false))
	})
	route("GET training_runs/{run}/checkpoints", x.checkpointsOfRun)
	route("GET sessions", x.sessionPage)
	route("GET sessions/{id}", x.oneSession)
	route("PUT sessions/{id}/project", x.moveSession)
	route("POST sessions/search", x.search)
	route("POST copy_weights", s.copyCall)

	route("DELETE "+oneCheckpoint, func(r *http.Request, owner string, _ []byte) (any, error) {
		return struct{}{}, s.all.store.delete(owner, pathOf(r))
	})
	route("DELETE training_runs/{run}/checkpoints/{name}", func(r *http.Request, _ string, _ []byte) (any, error) {
		return nil, missing("there is no checkpoint %.150q of %.150q: want %s/NAME or %s/NAME, as in its path",
			r.PathValue("name"), r.PathValue("run"), tinker.Weights, tinker.SamplerWeights)
	})
	for method, public := range map[string]bool{"POST": true, "DELETE": false} {
		route(method+" "+oneCheckpoint+"/publish", func(r *http.Request, owner string, _ []byte) (any, error) {
			return struct{}{}, s.all.store.change(owner, pathOf(r), func(f *facts) { f.Public = public })
		})
	}
	route("PUT "+oneCheckpoint+"/ttl", func(r *http.Request, owner string, body []byte) (any, error) {
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
		return struct{}{}, s.all.store.change(owner, pathOf(r), func(f *facts) { f.Expires = at })
	})
	s.all.store.archives(mux)
}

func pathOf(r *http.Request) tinker.Path {
	return tinker.Path{Run: r.PathValue("run"), Kind: r.PathValue("kind"), Name: r.PathValue("name")}
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
	c, err := s.all.store.copy(owner, &in, run)
	if err != nil {
		return nil, err
	}
	return map[string]string{"tinker_path": c.path.String()}, nil
}

// ownerKey is the key of a context whose value is the name of the client's key.
type ownerKey struct{}

// Owner returns the name of the key of a client. It is "" without keys.
func Owner(ctx context.Context) string {
	name, _ := ctx.Value(ownerKey{}).(string)
	return name
}
