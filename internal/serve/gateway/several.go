package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// Models are the models of a service, each of which has a server.
type Models interface {
	Servers() []*openai.Server
	// Of returns the one of the servers that answers a request for a model by this name.
	Of(r *http.Request, name string) (*openai.Server, error)
	// Names returns the names of the models that the client of a request may ask for.
	Names(r *http.Request) []string
	// Owner names the client of a request, who sees its own responses alone.
	Owner(r *http.Request) string
}

// ServedBy returns the handler of a service with several models in all dialects, as [Served] has them. It lets every request
// pass: who calls it checks keys. Responses are kept for a time.
func ServedBy(models Models, keep time.Duration) http.Handler {
	kept := newResponseCache(keep)
	of := func(r *http.Request) keeper { return kept.of(models.Owner(r)) }
	by := map[*openai.Server]http.Handler{}
	mux := http.NewServeMux()
	for i, api := range models.Servers() {
		if by[api] = answering(api, of); i == 0 { // any of them has the responses of all
			(&dialects{api, of}).handleKept(mux)
		}
	}
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) { openai.List(w, models.Names(r)) })
	mux.HandleFunc("GET /v1/models/{name...}", func(w http.ResponseWriter, r *http.Request) { openai.Show(w, r, models.Names(r)) })
	for _, pattern := range append(slices.Collect(maps.Keys((&dialects{}).asking())), "POST /v1/chat/completions", "POST /v1/completions") {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			api, err := choose(w, r, models)
			if err != nil {
				Fail(w, r.URL.Path, err)
				return
			}
			by[api].ServeHTTP(w, r)
		})
	}
	mux.HandleFunc("/", notHere)
	return mux
}

// choose returns the server of the model that a request names. The request can be read again.
func choose(w http.ResponseWriter, r *http.Request, models Models) (*openai.Server, error) {
	data, status, err := web.Body(w, r, maxMessages)
	if err != nil {
		return nil, &openai.Problem{Status: status, Message: err.Error()}
	}
	var asked struct {
		Model string `json:"model"`
	}
	if err := json.Unmarshal(data, &asked); err != nil {
		return nil, openai.NotJSON(err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	served := models.Servers()
	switch {
	case asked.Model != "" || len(served) == 0:
		return models.Of(r, asked.Model)
	case len(served) == 1:
		return served[0], nil
	}
	return nil, openai.Bad("model", "the request names no model, and several are served here: ask for one of %s", namesOf(served))
}

// namesOf returns the names of the models of servers.
func namesOf(servers []*openai.Server) string {
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	return strings.Join(slices.Sorted(slices.Values(names)), ", ")
}
