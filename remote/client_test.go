package remote

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A trainer that has forgotten what it had acknowledged before the explorer joined again is another run's; what it acknowledges meanwhile is none of that.
func TestDeliveriesBesideJoiningAgain(t *testing.T) {
	for _, c := range []struct {
		before, meanwhile int64 // acknowledged
		wrong             bool
	}{{6, 7, false}, {6, 6, false}, {7, 7, true}} {
		client := NewClient("e", fixed, time.Minute, nil)
		client.delivered = c.before
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			client.mu.Lock()
			defer client.mu.Unlock()
			client.delivered = c.meanwhile
			fmt.Fprint(w, `{"delivered": 6}`)
		}))
		err := client.rejoin(t.Context(), address{URL: server.URL}, 0)
		if (err != nil) != c.wrong || err != nil && !strings.Contains(err.Error(), "its run is another") {
			t.Errorf("%+v: %v", c, err)
		}
		server.Close()
	}
}
