package gateway

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// responded is a response that a client may ask for again, or continue by its id.
type responded struct {
	*wire.ResponsesReply
	chat  []trinity.Message // up to the response
	items []wire.Item       // that the response answers
}

// keeper keeps the responses of a client.
type keeper interface {
	keep(responded)
	kept(id string) (response responded, known bool)
	discard(id string)
}

// ofRollout keeps all responses of a rollout until the rollout ends.
type ofRollout struct {
	mu  sync.Mutex
	all map[string]responded // by their ids
}

// keep implements keeper.
func (k *ofRollout) keep(r responded) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]responded{}
	}
	k.all[r.ID] = r
}

// kept implements keeper.
func (k *ofRollout) kept(id string) (response responded, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	response, known = k.all[id]
	return response, known
}

// discard implements keeper.
func (k *ofRollout) discard(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, id)
}

// noResponse returns the problem of a request in whose field param stands the id of a response that is not kept.
func noResponse(status int, code, param, id string) error {
	return &openai.Problem{Status: status, Code: code, Param: param, Message: fmt.Sprintf("there is no response %.200q here", id)}
}

// handleKept adds the endpoints of responses that were kept.
func (d *dialects) handleKept(mux *http.ServeMux) {
	for pattern, answer := range map[string]func(keeper, url.Values, responded) (any, error){
		"GET /v1/responses/{id}": func(_ keeper, asked url.Values, r responded) (any, error) {
			if asked.Get("stream") == "true" {
				return nil, openai.Bad("stream", "a response is shown whole: leave it out")
			}
			return r.ResponsesReply, nil
		},
		"DELETE /v1/responses/{id}": func(kept keeper, _ url.Values, r responded) (any, error) {
			kept.discard(r.ID)
			return map[string]any{"id": r.ID, "object": "response", "deleted": true}, nil
		},
		"GET /v1/responses/{id}/input_items": func(_ keeper, asked url.Values, r responded) (any, error) { return listItems(r.items, asked) },
		"POST /v1/responses/{id}/cancel": func(_ keeper, _ url.Values, r responded) (any, error) {
			return nil, openai.Bad("id", "the response %q has ended: only one in the background can be cancelled", r.ID)
		},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			kept, id := d.keeper(r), r.PathValue("id")
			response, known := kept.kept(id)
			if !known {
				openai.Fail(w, noResponse(http.StatusNotFound, "not_found", "id", id))
				return
			}
			body, err := answer(kept, r.URL.Query(), response)
			if err != nil {
				openai.Fail(w, err)
				return
			}
			web.WriteJSON(w, http.StatusOK, body)
		})
	}
}

// Limits of a page of items.
const (
	usualItems = 20
	maxItems   = 100
)

// listItems returns a page of items, the newest first unless the client asks for the oldest.
func listItems(items []wire.Item, asked url.Values) (any, error) {
	limit := usualItems
	if text := asked.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxItems {
			return nil, openai.Bad("limit", "limit is %.80q; want 1 to %d", text, maxItems)
		}
		limit = n
	}
	items = slices.Clone(items)
	switch order := asked.Get("order"); order {
	case "", "desc":
		slices.Reverse(items)
	case "asc":
	default:
		return nil, openai.Bad("order", "order is %.80q; want asc or desc", order)
	}
	if after := asked.Get("after"); after != "" {
		i := slices.IndexFunc(items, func(item wire.Item) bool { return item.ID == after })
		if i < 0 {
			return nil, openai.Bad("after", "the response has no item %.200q", after)
		}
		items = items[i+1:]
	}
	page := wire.ItemList{Object: "list", Data: items[:min(limit, len(items))], HasMore: len(items) > limit}
	if n := len(page.Data); n > 0 {
		page.FirstID, page.LastID = &page.Data[0].ID, &page.Data[n-1].ID
	}
	return page, nil
}

// identified returns items as a client gets them: each with its type and an id, the text of the assistant as output.
func identified(items []wire.Item) []wire.Item {
	prefixes := map[string]string{"message": "msg_", "function_call": "fc_", "function_call_output": "fco_", "reasoning": "rs_"}
	items = slices.Clone(items)
	for i := range items {
		item := &items[i]
		item.Type = cmp.Or(item.Type, "message")
		item.ID = cmp.Or(item.ID, prefixes[item.Type]+rand.Text())
		if item.Type == "message" || item.Type == "function_call" {
			item.Status = cmp.Or(item.Status, "completed")
		}
		if item.Role != "assistant" {
			continue
		}
		item.Content = slices.Clone(item.Content)
		for j := range item.Content {
			item.Content[j].Type, item.Content[j].Annotations = "output_text", []json.RawMessage{}
		}
	}
	return items
}
