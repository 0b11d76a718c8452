package gateway

import (
	"net/http"
	"time"

	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// Served returns the handler of a server in all dialects: OpenAI's chats, completions and responses, and Anthropic's
// messages. Responses are kept for a time, so that a later one may continue them.
func Served(api *openai.Server, keep time.Duration) http.Handler {
	kept := newResponseCache(keep).of("")
	mux := answering(api, func(*http.Request) keeper { return kept })
	return web.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("x-api-key"); key != "" && r.Header.Get("Authorization") == "" { // of Anthropic's clients
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+key)
		}
		if r.URL.Path != "/health" && api.Token != "" && !web.Authorized(r, api.Token) {
			Fail(w, r.URL.Path, &openai.Problem{
				Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: "the API key is not the server's",
			})
			return
		}
		mux.ServeHTTP(w, r)
	}), api.Token, forbid)
}

// answering returns the handler of a model in all dialects, without guards.
func answering(api *openai.Server, keeper func(*http.Request) keeper) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", api.Endpoints())
	(&dialects{api, keeper}).handle(mux)
	return mux
}
