package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// Models are the models of a service, each of which has a server.
type Models interface {
	Servers() []*openai.Server
	// Of returns the one of the servers that answers a request for a model by this name, "" for none.
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
		if by[api] = answering(api, of); i == 0 { // any of them shows responses
			mux.Handle("GET /v1/responses/{id}", by[api])
		}
	}
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) { openai.List(w, models.Names(r)) })
	mux.HandleFunc("GET /v1/models/{name...}", func(w http.ResponseWriter, r *http.Request) { openai.Show(w, r, models.Names(r)) })
	mux.HandleFunc("POST /v1/", func(w http.ResponseWriter, r *http.Request) {
		api, err := choose(w, r, models)
		if err != nil {
			Fail(w, r.URL.Path, err)
			return
		}
		by[api].ServeHTTP(w, r)
	})
	mux.HandleFunc("/", openai.NotHere)
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
	return models.Of(r, asked.Model)
}
