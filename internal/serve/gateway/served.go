package gateway

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// Served returns the handler of a server in all dialects: OpenAI's chats, completions and responses, and Anthropic's
// messages. Responses are kept for a time, so that a later one may continue them.
func Served(api *openai.Server, keep time.Duration) http.Handler {
	endpoints := api.Endpoints()
	mux := http.NewServeMux()
	mux.Handle("/", endpoints)
	kept := &responseCache{keeping: keep, most: maxCachedBytes, now: time.Now, all: map[string]cached{}}
	(&dialects{api, func(*http.Request) keeper { return kept }}).handle(mux)
	return web.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("x-api-key"); key != "" && r.Header.Get("Authorization") == "" { // of Anthropic's clients
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+key)
		}
		if r.URL.Path != "/health" && api.Token != "" && !web.Authorized(r, api.Token) {
			fail(w, r.URL.Path, &openai.Problem{
				Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: "the API key is not the server's",
			})
			return
		}
		mux.ServeHTTP(w, r)
	}), api.Token, forbid)
}

// Limits of the responses that a server keeps.
const (
	maxCached      = 10_000
	maxCachedBytes = 256 << 20
)

// responseCache keeps responses until their time has passed, or newer ones need their room.
type responseCache struct {
	keeping time.Duration
	most    int // bytes
	now     func() time.Time

	mu    sync.Mutex
	all   map[string]cached
	order []string // ids, the oldest first
	bytes int
}

// cached is a response that is kept until a time.
type cached struct {
	responded
	until time.Time
	bytes int
}

// keep implements keeper.
func (c *responseCache) keep(response *wire.ResponsesReply, chat []trinity.Message) {
	data, _ := json.Marshal([]any{response, chat}) // texts, and what was read from JSON
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[response.ID] = cached{responded{response, chat}, c.now().Add(c.keeping), len(data)}
	c.order, c.bytes = append(c.order, response.ID), c.bytes+len(data)
	c.drop()
}

// drop removes the oldest responses while they are too old or too many. The mutex is held.
func (c *responseCache) drop() {
	for len(c.order) > 0 {
		oldest := c.all[c.order[0]]
		if len(c.order) <= maxCached && c.bytes <= c.most && c.now().Before(oldest.until) {
			return
		}
		delete(c.all, c.order[0])
		c.order, c.bytes = c.order[1:], c.bytes-oldest.bytes
	}
}

// kept implements keeper.
func (c *responseCache) kept(id string) (response responded, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
	of, known := c.all[id]
	return of.responded, known
}
